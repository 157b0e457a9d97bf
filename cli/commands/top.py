"""`frontrow top`: queues, workers, rates and health, live."""

import asyncio
import contextlib
import sys

import click
from rich.live import Live

from cli.connection import Connection
from cli.output import console, json_option, print_json
from cli.top import draw
from cli.top.look import Lookout, Picture


@click.command()
@click.option(
    "--interval", type=click.FloatRange(0.2, 60), default=2.0, show_default=True, metavar="SECONDS",
    help="Between two looks.",
)  # fmt: skip
@click.option("--once", is_flag=True, help="Print one look and leave (also when the output is no terminal).")
@json_option
@click.pass_obj
def top(connection: Connection, *, interval: float, once: bool, as_json: bool) -> None:
    """Watch servers, queues and workers live; Ctrl-C leaves.

    A server that is restarted shows as unreachable, and since when, until it is back. Rates are those of the
    last seconds; with --once and --json averages of ten minutes. Exit status 1 with these two when the
    task server doesn't answer.

    \b
    Examples:
      frontrow top
      frontrow top --interval 5
      frontrow top --once
      frontrow top --json | jq '.queues[] | {type, pending, oldest_pending_seconds}'
    """
    if not as_json and not once and sys.stdout.isatty():
        with contextlib.suppress(click.Abort):  # Ctrl-C is how one leaves
            connection.run("task", _watch(connection, interval))
        return
    found = connection.run("task", _once(connection))
    if as_json:
        print_json(found.as_json())
    else:
        console.print(draw.picture(found, console.width))
    sys.exit(1 if found.trouble else 0)


async def _once(connection: Connection) -> Picture:
    async with Lookout(connection) as lookout:
        return await lookout.look()


async def _watch(connection: Connection, interval_seconds: float) -> None:
    """Draw look after look until Ctrl-C."""
    async with Lookout(connection) as lookout:
        first = draw.picture(await lookout.look(), console.width, live=True)
        with Live(first, console=console, screen=True, auto_refresh=False) as live:
            while True:
                await asyncio.sleep(interval_seconds)
                live.update(draw.picture(await lookout.look(), console.width, live=True), refresh=True)
