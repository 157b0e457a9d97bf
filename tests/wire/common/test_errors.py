"""What a client is told when a handler fails."""

import asyncio
import uuid

import grpc
import pytest
import sqlalchemy.exc
import structlog
from sqlalchemy import text

from libs.common.client import error_info, reason_of
from libs.common.db import Database
from libs.common.errors import DomainError, FieldViolation, Kind
from libs.common.objects import StoreUnavailable
from libs.common.settings import DatabaseSettings
from tests.wire.common.probe import Probe, Request, Response, failure


class Taken(DomainError):
    """A refusal with everything on it."""

    kind = Kind.ALREADY_EXISTS
    reason = "NAME_TAKEN"


class Refused(DomainError):
    """A refusal of fields."""

    kind = Kind.INVALID_ARGUMENT
    reason = "INVALID_ARGUMENT"


def raising(error: BaseException) -> Probe:
    """Return a probe whose unary handler and stream raise `error`."""

    async def ask(_request, _context):
        raise error

    async def watch(_request, _context):
        yield Response(text="first")
        raise error

    return Probe(ask=ask, watch=watch)


async def test_an_unknown_exception_becomes_internal_with_an_id_and_without_its_text():
    with structlog.testing.capture_logs() as logs:
        async with raising(RuntimeError("the password is hunter2")).serving() as stub:
            error = await failure(stub.Ask(Request(), timeout=5))
    assert error.code() is grpc.StatusCode.INTERNAL
    words = error.details().split()
    assert words[:2] == ["internal", "error"]
    assert uuid.UUID(words[2])
    told = f"{error.details()} {error.debug_error_string()} {error.trailing_metadata()}"
    assert "hunter2" not in told
    assert "RuntimeError" not in told
    logged = [entry for entry in logs if entry["event"] == "rpc.failed"]
    assert [entry["error_id"] for entry in logged] == [words[2]]
    assert "hunter2" in str(logged[0]["exc_info"])


async def test_an_answer_that_is_no_message_is_internal_without_a_word_about_it():
    async def nothing(_request, _context):
        return None

    async with Probe(ask=nothing).serving() as stub:
        error = await failure(stub.Ask(Request(), timeout=5))
    assert error.code() is grpc.StatusCode.INTERNAL
    assert "NoneType" not in error.details()


async def test_a_stream_that_fails_half_way_gives_its_messages_and_then_internal():
    async with raising(RuntimeError("secret")).serving() as stub:
        got = []

        async def read():
            call = stub.Watch(Request(), timeout=5)
            got.append((await call.read()).text)
            await call.read()

        error = await failure(read())
    assert got == ["first"]
    assert error.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in error.details()


async def test_a_stray_cancelled_error_is_answered_at_once_instead_of_hanging():
    async def ask(_request, _context):
        inner = asyncio.create_task(asyncio.Event().wait())
        inner.cancel()
        await inner

    async with Probe(ask=ask).serving() as stub:
        error = await asyncio.wait_for(failure(stub.Ask(Request(), timeout=20)), 5)
    assert error.code() is grpc.StatusCode.INTERNAL
    assert error.details().startswith("internal error ")


async def test_a_domain_error_carries_reason_domain_metadata_and_delay():
    refusal = Taken("“名字” is taken; choose another", retry_delay_seconds=2.5, name="名字", task_id="7")
    async with raising(refusal).serving() as stub:
        error = await failure(stub.Ask(Request(), timeout=5))
    detail = error_info(error)
    assert detail.code is grpc.StatusCode.ALREADY_EXISTS
    assert (detail.reason, detail.domain) == ("NAME_TAKEN", "frontrow.probe")
    assert detail.message == error.details() == "“名字” is taken; choose another"
    assert detail.metadata == {"name": "名字", "task_id": "7"}
    assert detail.retry_delay_seconds == 2.5
    assert detail.violations == ()
    assert reason_of(error) == "NAME_TAKEN"


@pytest.mark.parametrize("message", ["two\nlines", " spaced ", "100% 图\t\x7f", ""])
async def test_any_message_arrives_as_it_was_written(message):
    async with raising(Taken(message)).serving() as stub:
        detail = error_info(await failure(stub.Ask(Request(), timeout=5)))
    assert (detail.message, detail.reason) == (message, "NAME_TAKEN")


async def test_an_object_store_that_is_away_or_full_is_unavailable_without_its_path():
    gone = StoreUnavailable("the object folder failed: no space left in /srv/secret")
    async with raising(gone).serving() as stub:
        detail = error_info(await failure(stub.Ask(Request(), timeout=5)))
    assert (detail.code, detail.reason) == (grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE")
    assert detail.retry_delay_seconds == 5.0
    assert "/srv" not in detail.message


async def test_details_that_are_no_status_of_ours_are_ignored():
    async def ask(_request, context):
        await context.abort(grpc.StatusCode.ABORTED, "theirs", (("grpc-status-details-bin", b"\xff\xff"),))

    async with Probe(ask=ask).serving() as stub:
        detail = error_info(await failure(stub.Ask(Request(), timeout=5)))
    assert (detail.code, detail.reason, detail.message) == (grpc.StatusCode.ABORTED, "", "theirs")


async def test_violations_are_capped_at_twenty():
    many = [FieldViolation(f"images[{i}].url", "must be a URL") for i in range(500)]
    async with raising(Refused("images are wrong", violations=many)).serving() as stub:
        detail = error_info(await failure(stub.Ask(Request(), timeout=5)))
    assert list(detail.violations) == many[:20]


async def test_an_error_too_large_for_metadata_is_cut_and_still_arrives():
    many = [FieldViolation("图" * 300, "错" * 300) for _ in range(30)]
    refusal = Refused("坏" * 9000, violations=many, a="值" * 9000, b="值" * 9000)
    async with raising(refusal).serving() as stub:
        detail = error_info(await failure(stub.Ask(Request(), timeout=5)))
    assert detail.code is grpc.StatusCode.INVALID_ARGUMENT
    assert detail.reason == "INVALID_ARGUMENT"
    assert detail.message.startswith("坏坏")


async def test_a_status_without_details_has_no_reason():
    async with raising(RuntimeError()).serving() as stub:
        error = await failure(stub.Ask(Request(), timeout=5))
    assert reason_of(error) is None
    assert error_info(error).reason == ""


async def test_the_answer_waits_until_the_handler_has_left_its_blocks():
    events = []

    async def ask(_request, _context):
        try:
            raise Taken("no")
        finally:
            await asyncio.sleep(0)
            events.append("rolled back")

    async with Probe(ask=ask).serving() as stub:
        await failure(stub.Ask(Request(), timeout=5))
        events.append("answered")
    assert events == ["rolled back", "answered"]


async def test_an_unreachable_database_is_unavailable_with_a_delay():
    database = Database(DatabaseSettings(url="postgresql://nobody@127.0.0.1:9/none"), "test")

    async def ask(_request, _context):
        async with database.begin() as session:
            await session.execute(text("SELECT 1"))

    async with Probe(ask=ask).serving() as stub:
        detail = error_info(await failure(stub.Ask(Request(), timeout=5)))
    await database.close()
    assert detail.code is grpc.StatusCode.UNAVAILABLE
    assert detail.reason == "DATABASE_UNAVAILABLE"
    assert detail.retry_delay_seconds


def raise_sqlstate(code: str) -> str:
    """Return a statement that fails with this SQLSTATE."""
    return f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{code}'; END $$"


@pytest.mark.parametrize(
    ("statement", "code", "reason"),
    [
        (raise_sqlstate("40001"), "UNAVAILABLE", "DATABASE_UNAVAILABLE"),
        (raise_sqlstate("40P01"), "UNAVAILABLE", "DATABASE_UNAVAILABLE"),
        (raise_sqlstate("53300"), "UNAVAILABLE", "DATABASE_UNAVAILABLE"),
        (raise_sqlstate("57P01"), "UNAVAILABLE", "DATABASE_UNAVAILABLE"),
        (raise_sqlstate("08006"), "UNAVAILABLE", "DATABASE_UNAVAILABLE"),
        (raise_sqlstate("55P03"), "UNAVAILABLE", "DATABASE_UNAVAILABLE"),
        ("SELECT 1 / 0", "INVALID_ARGUMENT", "INVALID_ARGUMENT"),
        ("SELECT 40000::smallint", "INVALID_ARGUMENT", "INVALID_ARGUMENT"),
        ("SELECT nothing FROM nowhere", "INTERNAL", None),
        (raise_sqlstate("23505"), "INTERNAL", None),
    ],
)
async def test_sqlstate_classes_are_mapped(empty_database_url, statement, code, reason):
    database = Database(DatabaseSettings(url=empty_database_url), "test")

    async def ask(_request, _context):
        async with database.begin() as session:
            await session.execute(text(statement))

    async with Probe(ask=ask).serving() as stub:
        error = await failure(stub.Ask(Request(), timeout=10))
    await database.close()
    assert (error.code().name, reason_of(error)) == (code, reason)
    assert "SELECT" not in error.details()


async def test_an_exhausted_pool_is_unavailable():
    async with raising(sqlalchemy.exc.TimeoutError("QueuePool limit")).serving() as stub:
        error = await failure(stub.Ask(Request(), timeout=5))
    assert reason_of(error) == "DATABASE_UNAVAILABLE"


async def test_a_peer_that_is_away_stays_unavailable_and_other_answers_of_peers_are_our_defect():
    async with raising(Taken("theirs")).serving() as peer:

        async def ask(request, _context):
            return await peer.Ask(request)

        async with Probe(ask=ask).serving() as stub:
            assert (await failure(stub.Ask(Request(), timeout=5))).code() is grpc.StatusCode.INTERNAL
            await peer.server.stop(grace_seconds=0)
            error = await failure(stub.Ask(Request(), timeout=5))
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert reason_of(error) == "PEER_UNAVAILABLE"


async def test_a_method_nobody_serves_is_unimplemented():
    async with Probe().serving() as stub:
        missing = stub.channel.unary_unary("/probe.v1.Probe/Missing")
        assert (await failure(missing(b"", timeout=5))).code() is grpc.StatusCode.UNIMPLEMENTED
