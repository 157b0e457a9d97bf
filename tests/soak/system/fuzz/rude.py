"""Clients without manners: too large, too slow, gone in the middle, and no gRPC at all."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Iterator

import grpc

from tests.soak.system.fuzz import oracle
from tests.soak.system.fuzz.methods import Method, every_method
from tests.soak.system.fuzz.target import Target

LIMIT_BYTES = 4 * 1024 * 1024
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\0\0\0\4\0\0\0\0\0"
NOISE = (
    b"", b"\0", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", PREFACE, PREFACE + SETTINGS, PREFACE[:10],
    PREFACE + SETTINGS + b"\xff" * 200, PREFACE + SETTINGS + b"\0\0\x05\1\4\0\0\0\1\xff\xff\xff\xff\xff",
    PREFACE + SETTINGS + b"\0\x40\0\0\0\0\0\0\1", b"\x16\x03\x01" + b"x" * 100,
)  # fmt: skip


async def all_of_it(target: Target, *, seconds: float, seed: int = 0) -> None:
    """Let all of them loose at once for so long; whatever they do, a proper client is served beside them."""
    chance = random.Random(seed)
    methods = every_method()
    await asyncio.gather(
        asyncio.to_thread(oversized, target, methods),
        asyncio.to_thread(gone_in_the_middle, target, methods, seconds, chance),
        asyncio.to_thread(slow_streams, target, methods, seconds),
        noise(target, seconds, chance),
        asyncio.to_thread(proper, target, seconds),
    )


def oversized(target: Target, methods: list[Method]) -> None:
    """Send more than a server takes, as a message and as metadata."""
    for method in _one_each(methods):
        too_large = target.call(method, [bytes(LIMIT_BYTES + 1_000)])
        assert too_large.code is grpc.StatusCode.RESOURCE_EXHAUSTED, too_large
        oracle.check(target, too_large)
        padding = ("x-padding", "x" * 60_000)
        padded = target.call(method, [b""], (*target.bearer("admin"), padding))
        assert padded.code is grpc.StatusCode.RESOURCE_EXHAUSTED, padded
        oracle.check(target, padded)


def _one_each(methods: list[Method]) -> list[Method]:
    """Return a method of each shape of each server."""
    found = {(m.context, m.client_streams, m.server_streams): m for m in methods if not m.waits}
    return list(found.values())


def gone_in_the_middle(target: Target, methods: list[Method], seconds: float, chance: random.Random) -> None:
    """Begin calls and cancel them at once, or a moment later."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        calls = [
            target.begin(method, iter([b""] * 3), target.bearer("admin"), 20)
            for method in chance.sample(methods, 10)
        ]
        for call in calls:
            time.sleep(chance.choice([0, 0, 0.001, 0.003, 0.01]))
            call.cancel()


def slow_streams(target: Target, methods: list[Method], seconds: float) -> None:
    """Write a byte now and then, or nothing at all; such a call ends at its deadline and not later."""
    streams = [method for method in methods if method.client_streams]
    begun = time.monotonic()
    calls = [
        target.begin(method, trickle(ends=begun + seconds + 5), target.bearer("admin"), seconds)
        for method in streams
        for _ in range(3)
    ]
    for call in calls:
        with contextlib.suppress(grpc.RpcError, StopIteration):
            if hasattr(call, "result"):
                call.result(timeout=seconds + 10)
            else:
                next(iter(call))
        assert call.code() not in oracle.OURS, (call.code(), call.details())
    assert time.monotonic() - begun <= seconds + oracle.GRACE_SECONDS


def trickle(ends: float) -> Iterator[bytes]:
    """Yield an empty message each half second."""
    while time.monotonic() < ends:
        time.sleep(0.5)
        yield b""


async def noise(target: Target, seconds: float, chance: random.Random) -> None:
    """Connect and speak something else, or half a sentence, and stay."""
    addresses = list(target.process.addresses().values())
    open_now: list[asyncio.StreamWriter] = []
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        host, _, port = chance.choice(addresses).rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(chance.choice(NOISE))
        open_now.append(writer)
        await asyncio.sleep(0.02)
    for writer in open_now:
        writer.transport.abort()


def proper(target: Target, seconds: float) -> None:
    """Ask what anybody asks; it is answered in good time while the others rage."""
    (method,) = [m for m in every_method() if m.path.endswith("CatalogService/ListBrands")]
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        outcome = target.call(method, [b""], ())
        assert outcome.code is grpc.StatusCode.OK, outcome
        assert outcome.seconds < oracle.GRACE_SECONDS, outcome
        time.sleep(0.05)
