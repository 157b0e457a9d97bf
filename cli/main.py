"""The `frontrow` command: which commands there are, loaded when they are used."""

import importlib
import importlib.metadata
from pathlib import Path

import click
from click.shell_completion import CompletionItem

# Name: where it is, and its line in the list (said here, so that the list needs no import).
_COMMANDS = {
    "up": ("cli.commands.up:up", "Start PostgreSQL, the four servers and all workers here."),
    "top": ("cli.commands.top:top", "Watch servers, queues and workers live."),
    "status": ("cli.commands.status:status", "Ask each server's health."),
    "doctor": ("cli.commands.doctor:doctor", "Look for what this machine lacks, and say what to do."),
    "submit": ("cli.commands.submit:submit", "Submit a gallery as a spider does, signed."),
    "spiders": ("cli.commands.spiders:spiders", "Register spiders; change their keys."),
    "jobs": ("cli.commands.jobs:jobs", "See what became of submitted galleries; run some again."),
    "explain": ("cli.commands.explain:explain", "Say why an article did or didn't come in."),
    "drafts": ("cli.commands.drafts:drafts", "List drafts, look at one, change it; reopen, delete, purge."),
    "approve": ("cli.commands.approve:approve", "Approve a draft; it joins its official page."),
    "reject": ("cli.commands.reject:reject", "Reject a draft."),
    "catalogue": ("cli.commands.catalogue:catalogue", "See the official pages, as the public does."),
    "brands": ("cli.commands.brands:brands", "List and add brands."),
    "keys": ("cli.commands.keys:keys", "Brands, cities, seasons: spellings, merging."),
    "tasks": ("cli.commands.tasks:tasks", "Watch the work with live progress bars; cancel, retry."),
    "why": ("cli.commands.why:why", "Say why a task isn't running, or what happened, run by run."),
    "queues": ("cli.commands.queues:queues", "See what waits and runs; pause or limit a type."),
    "workers": ("cli.commands.workers:workers", "See who works, and on what."),
    "materials": ("cli.commands.materials:materials", "Add recordings, list them, read transcripts."),
    "slice": ("cli.commands.slice:slice_material", "Cut a transcribed recording into titled clips."),
    "draft": ("cli.commands.draft:draft", "Make and save editing drafts of clips (OTIO, JianYing …)."),
    "search": ("cli.commands.search:search", "Find what was said, and when."),
    "export": ("cli.commands.export:export", "Write a transcript as subtitles, text or JSON."),
    "debug": ("cli.commands.debug:debug", "See what each stage of a transcription did."),
    "db": ("cli.commands.db:db", "Look after the database: roles, migrations, backups."),
    "tokens": ("cli.commands.tokens:tokens", "Say who may call servers that others can reach."),
    "certificates": (
        "cli.commands.certificates:certificates",
        "Make an authority of your own, and certificates of processes.",
    ),
    "completion": (
        "cli.commands.completion:completion",
        "Let Tab complete commands (bash, zsh, fish).",
    ),
    "purge": ("cli.commands.purge:purge", "Remove the test data of a source."),
    "media": ("cli.commands.media:media", "Check stored images; find similar ones; remove unused ones."),
}


def _version() -> str:
    """Return the installed version; a container runs from the bare sources."""
    try:
        return importlib.metadata.version("frontrow")
    except importlib.metadata.PackageNotFoundError:
        return "from source"


class _LazyGroup(click.Group):
    """A group that imports a command's module only when that command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of a first session, not of the alphabet."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command; None for a name that there isn't."""
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names of commands without importing them, else options."""
        named = [
            CompletionItem(name, help=line)
            for name, (_, line) in _COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return named + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])


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
@click.version_option(version=_version())
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
    from cli.connection import Connection

    ctx.obj = Connection(data_dir)
