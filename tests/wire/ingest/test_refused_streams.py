"""No transport sends a signed submission twice: its nonce was used, and each attempt has one of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress

import pytest
from frontrow.client import AsyncSpiderClient, Refused, SpiderClient
from frontrow.worker import Dial

from tests.integration.ingest.conftest import gallery

PREFACE_BYTES = 24
HEADERS, SETTINGS, PING, GOAWAY = 1, 4, 6, 7
ACK = 1
SEEN_NONE = bytes(8)  # the last stream that was looked at is 0, and nothing is wrong
TRIED_AGAIN = "the submission is tried again"


def frame(kind: int, flags: int = 0, payload: bytes = b"") -> bytes:
    """Return an HTTP/2 frame of the connection."""
    return len(payload).to_bytes(3) + bytes([kind, flags]) + bytes(4) + payload


class RefusingServer:
    """Goes away at each call without having looked at it, which allows a client's transport to repeat it."""

    def __init__(self) -> None:
        self.streams = 0
        self.address = ""

    async def serve(self, listens: Future[Callable[[], object]]) -> None:
        """Serve on a free port until what `listens` gives is called, from any thread."""
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        listens.set_result(lambda: loop.call_soon_threadsafe(stop.set))
        await stop.wait()
        server.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readexactly(PREFACE_BYTES)
            writer.write(frame(SETTINGS))
            while True:
                head = await reader.readexactly(9)
                payload = await reader.readexactly(int.from_bytes(head[:3]))
                kind, flags = head[3], head[4]
                if kind in {SETTINGS, PING} and not flags & ACK:
                    writer.write(frame(kind, ACK, payload if kind == PING else b""))
                elif kind == HEADERS:
                    self.streams += 1
                    writer.write(frame(GOAWAY, 0, SEEN_NONE))


@pytest.fixture
def refusing() -> Iterator[RefusingServer]:
    """Give a server in a thread of its own: the ordinary client blocks the test's."""
    running, listens = RefusingServer(), Future[Callable[[], object]]()
    with ThreadPoolExecutor(1) as thread:
        served = thread.submit(asyncio.run, running.serve(listens))
        stop = listens.result(30)
        yield running
        stop()
        served.result(30)


def attempts(caplog: pytest.LogCaptureFixture) -> int:
    """Return how many attempts a client has told of: the first, and each that it tries again."""
    return 1 + sum(TRIED_AGAIN in record.message for record in caplog.records)


def test_each_attempt_of_the_ordinary_client_is_one_call(
    refusing: RefusingServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    client = SpiderClient(refusing.address, key_id="fk_1", secret="s", deadline_seconds=1)
    with client, pytest.raises(Refused):
        client.submit(gallery())
    assert refusing.streams == attempts(caplog)


async def test_each_attempt_of_the_asyncio_client_is_one_call(
    refusing: RefusingServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with AsyncSpiderClient(
        Dial(refusing.address), key_id="fk_1", secret="s", deadline_seconds=1
    ) as client:
        with pytest.raises(Refused):
            await client.submit(gallery())
    assert refusing.streams == attempts(caplog)
