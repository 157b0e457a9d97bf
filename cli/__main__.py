"""The `frontrow` command where only the sources are, e.g. in a container: `python -m cli`."""

from cli.main import main

if __name__ == "__main__":
    main(prog_name="frontrow")
