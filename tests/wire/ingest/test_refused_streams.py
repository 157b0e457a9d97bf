"""No transport sends a signed submission twice: its nonce was used, and each attempt has one of its own."""

from __future__ import annotations

import logging
import socketserver
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from frontrow.client import AsyncSpiderClient, Refused, SpiderClient
from frontrow.worker import Dial

from tests.integration.ingest.conftest import gallery

PREFACE_BYTES, HEAD_BYTES = 24, 9
HEADERS, SETTINGS, PING, GOAWAY = 1, 4, 6, 7
ACK = 1
SEEN_NONE = bytes(8)  # the last stream that was looked at is 0, and nothing is wrong
TRIED_AGAIN = "the submission is tried again"


def frame(kind: int, flags: int = 0, payload: bytes = b"") -> bytes:
    """Return an HTTP/2 frame of the connection."""
    return len(payload).to_bytes(3) + bytes([kind, flags]) + bytes(4) + payload


class Connection(socketserver.StreamRequestHandler):
    """A connection of a client: the server goes away at each call without having looked at it."""

    server: RefusingServer
    timeout = 0.5  # one that says nothing more is closed

    def handle(self) -> None:
        """Answer frame by frame till the client has closed."""
        with suppress(OSError):
            self.rfile.read(PREFACE_BYTES)
            self.wfile.write(frame(SETTINGS))
            while head := self.rfile.read(HEAD_BYTES):
                payload, kind, flags = self.rfile.read(int.from_bytes(head[:3])), head[3], head[4]
                if kind in {SETTINGS, PING} and not flags & ACK:
                    self.wfile.write(frame(kind, ACK, payload if kind == PING else b""))
                elif kind == HEADERS:
                    self.server.streams += 1
                    self.wfile.write(frame(GOAWAY, 0, SEEN_NONE))


class RefusingServer(socketserver.ThreadingTCPServer):
    """Refuses calls in a way that allows a client's transport to repeat them; counts all that come."""

    streams = 0

    @property
    def target(self) -> str:
        """Return where it listens."""
        return f"127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def refusing() -> Iterator[RefusingServer]:
    """Give a server in a thread of its own: the ordinary client blocks the test's."""
    with RefusingServer(("127.0.0.1", 0), Connection) as running, ThreadPoolExecutor(1) as thread:
        thread.submit(running.serve_forever, 0.05)
        yield running
        running.shutdown()


def attempts(caplog: pytest.LogCaptureFixture) -> int:
    """Return how many attempts a client has told of: the first, and each that it tries again."""
    return 1 + sum(TRIED_AGAIN in record.message for record in caplog.records)


def test_each_attempt_of_the_ordinary_client_is_one_call(
    refusing: RefusingServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    client = SpiderClient(refusing.target, key_id="fk_1", secret="s", deadline_seconds=1)
    with client, pytest.raises(Refused):
        client.submit(gallery())
    assert refusing.streams == attempts(caplog)


async def test_each_attempt_of_the_asyncio_client_is_one_call(
    refusing: RefusingServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with AsyncSpiderClient(
        Dial(refusing.target), key_id="fk_1", secret="s", deadline_seconds=1
    ) as client:
        with pytest.raises(Refused):
            await client.submit(gallery())
    assert refusing.streams == attempts(caplog)
