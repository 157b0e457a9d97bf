"""Clients that are killed while an answer is on its way to them: nothing of the server has failed."""

import asyncio
import sys

from structlog.testing import capture_logs

from libs.common.testing import eventually
from tests.wire.common.probe import WATCH, Probe, Request, Response

CLIENTS, STREAMS = 8, 20
# Reads a first answer on each stream, then is gone without a word while the next ones wait for room.
CLIENT = f"""
import grpc, os, sys
watch = grpc.insecure_channel(sys.argv[1]).unary_stream("{WATCH}")
for stream in [watch(b"") for _ in range({STREAMS})]:
    next(stream)
os._exit(0)
"""


async def test_a_write_that_fails_because_its_client_is_gone_is_no_failure_of_the_server():
    answer, over = Response(text="x" * 200_000), 0

    async def watch(_request, _context):
        nonlocal over
        try:
            while True:
                yield answer
        finally:
            over += 1

    async def all_over():
        return over == CLIENTS * STREAMS

    with capture_logs() as logs:
        async with Probe(watch=watch).serving() as stub:
            for _ in range(CLIENTS):
                client = await asyncio.create_subprocess_exec(sys.executable, "-c", CLIENT, stub.address)
                assert await client.wait() == 0
            await eventually(all_over)
            assert (await stub.Ask(Request(text="alive"))).text == "alive"
    assert [entry for entry in logs if entry["log_level"] in {"error", "warning"}] == []
