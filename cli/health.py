"""Ask a server's health; an error is an answer here."""

import time
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from cli.connection import Connection, explain

CONTEXTS = ("ingest", "review", "asr", "task")
_PATIENCE_SECONDS = 3.0


async def ask(connection: Connection, context: str, channel: grpc.aio.Channel) -> dict[str, Any]:
    """Return what one server says of itself, and how long it took to say it."""
    began = time.monotonic()
    health, trouble = "unreachable", ""
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
