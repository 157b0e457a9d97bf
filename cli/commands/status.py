"""`frontrow status`: are the servers well?"""

import asyncio
import sys
from typing import Any

import click

from cli.connection import Connection
from cli.health import CONTEXTS, ask
from cli.output import json_option, print_json, print_table


@click.command()
@json_option
@click.pass_obj
def status(connection: Connection, as_json: bool) -> None:
    """Ask each server's health; exit status 1 when one isn't serving.

    \b
    Examples:
      frontrow status
      frontrow status --json | jq -r '.servers[].address'
    """
    servers = asyncio.run(_ask_all(connection))
    running = connection.running()
    if as_json:
        print_json({"pid": running.pid if running else None, "servers": servers})
    else:
        print_table(
            ["server", "address", "health", "answer in", "trouble"],
            [
                (s["server"], s["address"], s["health"], f"{s['milliseconds']} ms", s["trouble"])
                for s in servers
            ],
            empty="",
        )
    sys.exit(0 if all(server["health"] == "serving" for server in servers) else 1)


async def _ask_all(connection: Connection) -> list[dict[str, Any]]:
    return list(await asyncio.gather(*(_ask(connection, context) for context in CONTEXTS)))


async def _ask(connection: Connection, context: str) -> dict[str, Any]:
    async with connection.channel(context) as channel:
        return await ask(connection, context, channel)
