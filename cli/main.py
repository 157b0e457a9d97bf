"""The `frontrow` command: which commands there are, loaded when they are used."""

import importlib
from pathlib import Path

import click

from cli.connection import Connection

_COMMANDS = {
    "up": "cli.commands.up:up",
    "status": "cli.commands.status:status",
    "doctor": "cli.commands.doctor:doctor",
    "submit": "cli.commands.submit:submit",
    "spiders": "cli.commands.spiders:spiders",
    "jobs": "cli.commands.jobs:jobs",
    "drafts": "cli.commands.drafts:drafts",
    "approve": "cli.commands.approve:approve",
    "reject": "cli.commands.reject:reject",
    "brands": "cli.commands.brands:brands",
    "tasks": "cli.commands.tasks:tasks",
    "materials": "cli.commands.materials:materials",
    "slice": "cli.commands.slice:slice_material",
}


class _LazyGroup(click.Group):
    """A group that imports a command's module only when that command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of a first session, not of the alphabet."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command; None for a name that there isn't."""
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


@click.group(
    cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("var/data"),
    envvar="FRONTROW_DATA_DIR",
    show_default=True,
    help="Folder of the instance; where a running one leaves its addresses.",
)
@click.version_option(package_name="frontrow")
@click.pass_context
def main(ctx: click.Context, data_dir: Path) -> None:
    """Galleries, review, transcripts and clips of a fashion-media team.

    \b
    A first session:
      frontrow doctor                       what this machine lacks, if anything
      frontrow up                           start everything here (Ctrl-C stops it)
      frontrow status                       in a second terminal: are all servers well?
      frontrow materials add live.mp4       upload a recording; it is transcribed
      frontrow tasks                        watch the work, with progress bars
      frontrow slice MATERIAL_ID            cut it into titled clips

    \b
    Another machine's servers: set FRONTROW_TASK_ADDRESS, FRONTROW_REVIEW_ADDRESS,
    FRONTROW_ASR_ADDRESS and FRONTROW_INGEST_ADDRESS (host:port).
    """
    ctx.obj = Connection(data_dir)
