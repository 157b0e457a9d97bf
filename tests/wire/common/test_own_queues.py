"""Which methods have queues of their own inside of gRPC."""

from __future__ import annotations

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.wire.common.probe import ASK, Probe, Request, Response


async def _ask(request, _context):
    return Response(text=request.text)


async def test_urgent_methods_and_health_checks_alone_are_told_apart_and_all_are_served(monkeypatch):
    told: list[str] = []
    add = grpc.aio._server.Server.add_registered_method_handlers

    def note(server, service, handlers):
        told.extend(f"/{service}/{name}" for name in handlers)
        add(server, service, handlers)

    monkeypatch.setattr(grpc.aio._server.Server, "add_registered_method_handlers", note)
    async with Probe(ask=_ask, urgent={ASK: lambda _request: True}).serving() as stub:
        health = health_pb2_grpc.HealthStub(stub.channel)
        assert (await stub.Ask(Request(text="a"), timeout=5)).text == "a"
        await health.Check(health_pb2.HealthCheckRequest(), timeout=5)
        await health.Watch(health_pb2.HealthCheckRequest(), timeout=5).read()
    ours = {name for name in told if "reflection" not in name}
    assert ours == {ASK, "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/List"}
