"""Hold the protos to those of the release before: `python -m tools.breaking` names what breaks callers."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tools.released import ROOT, ReleaseUnknown, extract, reference

_PATHS = ("buf.yaml", "protos", "third_party/protos")


def breaks(against: Path, root: Path = ROOT) -> list[str]:
    """Return what buf finds between the protos in the folder `against` and those at `root`."""
    buf = Path(sys.executable).parent / "buf"
    done = subprocess.run(
        [buf, "breaking", "--against", against], cwd=root, capture_output=True, text=True, check=False
    )
    return [line for line in (done.stdout + done.stderr).splitlines() if line] if done.returncode else []


def main() -> int:
    """Compare; return the process's exit code."""
    try:
        released = reference()
        with tempfile.TemporaryDirectory() as folder:
            extract(released, Path(folder), _PATHS)
            found = breaks(Path(folder))
    except ReleaseUnknown as error:
        print(f"buf breaking: {error}", file=sys.stderr)
        return 1
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
