"""`frontrow completion`: let the shell complete commands and options."""

import click
from click.shell_completion import get_completion_class

_VARIABLE = "_FRONTROW_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what makes a shell complete `frontrow …` at the Tab key.

    \b
    Examples:
      eval "$(frontrow completion bash)"                                 now, in this shell
      echo 'eval "$(frontrow completion bash)"' >> ~/.bashrc             in each one from now on
      echo 'eval "$(frontrow completion zsh)"' >> ~/.zshrc
      frontrow completion fish > ~/.config/fish/completions/frontrow.fish
    """
    made = get_completion_class(shell)
    if made is None:  # click knows the three
        raise click.ClickException(f"no completion for {shell}")
    click.echo(made(ctx.find_root().command, {}, "frontrow", _VARIABLE).source())
