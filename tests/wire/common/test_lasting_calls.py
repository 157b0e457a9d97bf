"""Calls that last: a token that is taken away ends what it opened."""

import asyncio

import grpc
import pytest

from libs.common.access import Rules
from libs.common.client import reason_of
from libs.common.interceptors import access as access_step
from libs.common.settings import TransportSettings
from tests.wire.common.guarded import calling_as, write_tokens
from tests.wire.common.probe import ASK, WATCH, Part, Probe, Request, failure


async def _endless(_request, _context):
    while True:
        yield Part()
        await asyncio.sleep(0.01)


async def _waiting(_request, _context):
    await asyncio.Event().wait()


async def _drained(watch) -> None:
    while await watch.read() is not grpc.aio.EOF:
        pass


@pytest.mark.parametrize("left", [{}, {"ann": "spider"}], ids=["removed", "another role"])
async def test_who_loses_a_token_loses_the_streams_and_long_polls_that_it_opened(tmp_path, monkeypatch, left):
    monkeypatch.setattr(access_step, "LOOK_SECONDS", 0.1)
    write_tokens(tmp_path, ann="editor", bob="editor")
    rules = Rules({ASK: frozenset({"editor"}), WATCH: frozenset({"editor"})})
    transport = TransportSettings(tokens_file=tmp_path / "tokens.toml")
    async with (
        Probe(ask=_waiting, watch=_endless, long_polls=(ASK,)).serving(
            transport=transport, rules=rules
        ) as stub,
        calling_as(stub, tmp_path, "ann") as ann,
        calling_as(stub, tmp_path, "bob") as bob,
    ):
        watch, others_watch = (one.Watch(Request(), timeout=30) for one in (ann, bob))
        poll, others_poll = (
            asyncio.create_task(failure(one.Ask(Request(), timeout=30))) for one in (ann, bob)
        )
        assert await watch.read() is not grpc.aio.EOF
        write_tokens(tmp_path, bob="editor", **left)
        assert reason_of(await failure(_drained(watch))) == "TOKEN_UNKNOWN"
        assert reason_of(await poll) == "TOKEN_UNKNOWN"
        assert await others_watch.read() is not grpc.aio.EOF
        assert not others_poll.done()
        others_poll.cancel()
        others_watch.cancel()
