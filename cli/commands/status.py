"""`frontrow status`: are the servers well?"""

import asyncio
import sys
import time
from typing import Any

import click
import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from cli.connection import Connection, explain
from cli.output import json_option, print_json, print_table

_CONTEXTS = ("ingest", "review", "asr", "task")
_PATIENCE_SECONDS = 3.0


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
    return list(await asyncio.gather(*(_ask(connection, context) for context in _CONTEXTS)))


async def _ask(connection: Connection, context: str) -> dict[str, Any]:
    """Ask one server; an error is an answer here."""
    began = time.monotonic()
    health, trouble = "unreachable", ""
    async with connection.channel(context) as channel:
        try:
            check = health_pb2_grpc.HealthStub(channel).Check  # type: ignore[attr-defined]  # untyped stub
            answer = await check(health_pb2.HealthCheckRequest(), timeout=_PATIENCE_SECONDS)
            health = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status).lower()
        except grpc.aio.AioRpcError as error:
            trouble = explain(error, context, connection.address(context)).splitlines()[0]
    return {
        "server": context,
        "address": connection.address(context),
        "health": health,
        "milliseconds": round((time.monotonic() - began) * 1000),
        "trouble": trouble,
    }
