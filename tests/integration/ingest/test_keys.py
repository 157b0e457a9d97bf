"""Spiders' keys: rotation, revocation, and how many calls a key may make."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import grpc
import pytest
from frontrow.client import sign
from frontrow.client.signing import METHOD, signature
from frontrow.ingest.v1 import ingest_service_pb2
from sqlalchemy import func, update
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.client import error_info
from libs.common.db import Database
from libs.common.testing import eventually
from services.ingest import repository_spider, repository_submit
from services.ingest.models import spider_keys
from services.ingest.mount import mount
from tests.conftest import Serve
from tests.integration.ingest.conftest import Ingest, common_settings, gallery, ingest_settings

Rotate = ingest_service_pb2.RotateSpiderKeyRequest
Revoke = ingest_service_pb2.RevokeSpiderKeyRequest


def submission(url: str = "https://k.example/a") -> ingest_service_pb2.SubmitGalleryRequest:
    return ingest_service_pb2.SubmitGalleryRequest(gallery=gallery(url=url))


async def reason(awaitable: object) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await awaitable  # type: ignore[misc]
    return error_info(caught.value).reason


async def test_both_keys_work_during_a_rotation_and_the_revoked_one_no_more(ingest: Ingest) -> None:
    old = (ingest.key_id, ingest.secret)
    rotated = await ingest.stub.RotateSpiderKey(Rotate(spider_id=ingest.spider_id))
    new = (rotated.key_id, rotated.secret)
    for ingest.key_id, ingest.secret in (old, new):
        assert (await ingest.call(submission())).accepted
    revoked = await ingest.stub.RevokeSpiderKey(Revoke(key_id=old[0]))
    again = await ingest.stub.RevokeSpiderKey(Revoke(key_id=old[0]))
    assert revoked == again
    assert [key.HasField("revoke_time") for key in revoked.spider.keys] == [False, True]
    ingest.key_id, ingest.secret = old
    assert await reason(ingest.call(submission())) == "UNKNOWN_KEY"
    ingest.key_id, ingest.secret = new
    assert (await ingest.call(submission())).accepted


async def test_a_nonce_used_under_one_key_is_a_replay_under_the_other(ingest: Ingest) -> None:
    request = submission()
    raw, stamp, nonce = request.SerializeToString(), "", "0123456789abcdef"
    rotated = await ingest.stub.RotateSpiderKey(Rotate(spider_id=ingest.spider_id))

    def metadata(key_id: str, secret: str) -> tuple[tuple[str, str], ...]:
        signed = signature(secret, method=METHOD, timestamp=stamp, nonce=nonce, request=raw)
        return (
            ("x-frontrow-key-id", key_id),
            ("x-frontrow-timestamp", stamp),
            ("x-frontrow-nonce", nonce),
            ("x-frontrow-signature", signed),
        )

    stamp = str(int(time.time()))
    await ingest.call(request, metadata(ingest.key_id, ingest.secret))
    assert await reason(ingest.call(request, metadata(rotated.key_id, rotated.secret))) == "NONCE_REPLAYED"


async def test_a_third_working_key_is_refused_however_many_ask_at_once(ingest: Ingest) -> None:
    calls = [ingest.stub.RotateSpiderKey(Rotate(spider_id=ingest.spider_id)) for _ in range(6)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    made = [answer for answer in answers if not isinstance(answer, BaseException)]
    assert len(made) == 1
    assert await reason(ingest.stub.RotateSpiderKey(Rotate(spider_id=ingest.spider_id))) == "TWO_KEYS_WORK"
    await ingest.stub.RevokeSpiderKey(Revoke(key_id=ingest.key_id))
    assert (await ingest.stub.RotateSpiderKey(Rotate(spider_id=ingest.spider_id))).created


async def test_a_rotation_repeated_under_its_request_id_makes_no_second_key(ingest: Ingest) -> None:
    request = Rotate(spider_id=ingest.spider_id, request_id="rotate-1")
    first = await ingest.stub.RotateSpiderKey(request)
    again = await ingest.stub.RotateSpiderKey(request)
    assert (first.created, bool(first.secret)) == (True, True)
    assert (again.created, again.secret, again.key_id) == (False, "", first.key_id)
    assert len(again.spider.keys) == 2


async def test_unknown_spiders_and_keys_are_named_as_such(ingest: Ingest) -> None:
    nobody = "01890000-0000-7000-8000-000000000000"
    assert await reason(ingest.stub.RotateSpiderKey(Rotate(spider_id=nobody))) == "SPIDER_NOT_FOUND"
    assert await reason(ingest.stub.RevokeSpiderKey(Revoke(key_id="fk_none"))) == "KEY_NOT_FOUND"


async def test_a_key_beyond_its_budget_is_told_when_to_come_back_and_others_are_not_touched(
    slow_lane: Ingest,
) -> None:
    for _ in range(3):
        await slow_lane.call(submission())
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await slow_lane.call(submission())
    found = error_info(caught.value)
    assert (found.code, found.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "RATE_LIMITED")
    assert found.retry_delay_seconds is not None
    assert 0 < found.retry_delay_seconds <= 2
    async with slow_lane.client() as client:  # waits as it is told, and gets in
        assert (await client.submit(gallery())).accepted
    await slow_lane.make_spider(f"other {slow_lane.spider_id}")
    assert (await slow_lane.call(submission())).accepted


async def test_a_clock_that_was_ahead_keeps_nobody_out_once_it_is_right(
    slow_lane: Ingest, database: Database
) -> None:
    ahead = update(spider_keys).where(spider_keys.c.key_id == slow_lane.key_id)
    async with database.begin() as session:
        await session.execute(ahead.values(budget=0, budget_at=func.now() + timedelta(hours=1)))
    async with slow_lane.client() as client:  # refused once more, then waits as it is told
        assert (await client.submit(gallery())).accepted


async def test_a_server_with_another_sealing_key_says_so_and_lets_nobody_in(
    ingest: Ingest, serve: Serve, database_url: str
) -> None:
    common = common_settings(database_url, task_address="127.0.0.1:9")
    other = Ingest(await serve("ingest", await mount(ingest_settings(sealing_key="7a" * 32), common)))
    other.key_id, other.secret = ingest.key_id, ingest.secret
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await other.call(submission())
    found = error_info(caught.value)
    assert (found.code, found.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "SEALING_KEY_CHANGED")
    assert ingest.secret not in repr(found)
    assert (await ingest.call(submission())).accepted
    await other.channel.close()


async def test_a_wrong_signature_spends_nothing_of_the_keys_budget(slow_lane: Ingest) -> None:
    secret, slow_lane.secret = slow_lane.secret, "wrong"
    for _ in range(6):
        assert await reason(slow_lane.call(submission())) == "BAD_SIGNATURE"
    slow_lane.secret = secret
    assert (await slow_lane.call(submission())).accepted


async def test_a_limited_call_leaves_nothing_behind_and_gets_in_later_as_it_was_signed(
    slow_lane: Ingest,
) -> None:
    for _ in range(3):
        await slow_lane.call(submission())
    request = submission()
    signed = sign(request.SerializeToString(), key_id=slow_lane.key_id, secret=slow_lane.secret)
    assert await reason(slow_lane.call(request, signed)) == "RATE_LIMITED"

    async def gets_in() -> bool:
        (answer,) = await asyncio.gather(slow_lane.call(request, signed), return_exceptions=True)
        if isinstance(answer, grpc.aio.AioRpcError):
            assert error_info(answer).reason == "RATE_LIMITED"
            return False
        return True

    await eventually(gets_in, 10.0)


async def test_all_servers_share_the_budget_of_a_key(
    slow_lane: Ingest, serve: Serve, database_url: str
) -> None:
    common = common_settings(database_url, task_address="127.0.0.1:9")
    settings = ingest_settings(key_calls_per_second=0.5, key_burst=3)
    second = Ingest(await serve("ingest", await mount(settings, common)))
    second.key_id, second.secret = slow_lane.key_id, slow_lane.secret
    began = time.monotonic()
    calls = [server.call(submission()) for server in (slow_lane, second) for _ in range(6)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    let_in = sum(not isinstance(answer, BaseException) for answer in answers)
    assert 3 <= let_in <= 3 + (time.monotonic() - began) * 0.5
    refused = [error_info(a).reason for a in answers if isinstance(a, grpc.aio.AioRpcError)]
    assert set(refused) == {"RATE_LIMITED"}
    await second.channel.close()


async def test_a_revoked_key_is_told_so_before_its_signature_is_looked_at(ingest: Ingest) -> None:
    assert (await ingest.call(submission())).accepted  # the server knows the key now
    await ingest.stub.RevokeSpiderKey(Revoke(key_id=ingest.key_id))
    assert await reason(ingest.call(submission())) == "UNKNOWN_KEY"
    ingest.secret = "wrong"
    assert await reason(ingest.call(submission())) == "UNKNOWN_KEY"


Read = list[list[str]]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Read:
    """Give the keys of each look into the database."""
    made, read = Read(), repository_submit.sealed_secrets

    async def noted(session: AsyncSession, key_ids: Sequence[str]) -> dict[str, bytes]:
        made.append(list(key_ids))
        return await read(session, key_ids)

    monkeypatch.setattr(repository_submit, "sealed_secrets", noted)
    return made


async def test_forged_calls_do_not_make_the_keys_own_calls_read_its_secret_again(
    ingest: Ingest, reads: Read
) -> None:
    secret = ingest.secret
    assert (await ingest.call(submission())).accepted
    assert len(reads) == 1
    for forged in range(1, 4):
        ingest.secret = "wrong"
        assert await reason(ingest.call(submission())) == "BAD_SIGNATURE"
        ingest.secret = secret
        assert (await ingest.call(submission())).accepted
        assert len(reads) == 1 + forged


async def test_forged_calls_that_come_together_share_their_looks_into_the_database(
    ingest: Ingest, reads: Read
) -> None:
    request = submission()
    made_up = [f"fk_{number:018x}" for number in range(200)]
    calls = [
        ingest.call(request, sign(request.SerializeToString(), key_id=key_id, secret="wrong"))
        for key_id in (*made_up, ingest.key_id)
    ]
    told = Counter(await asyncio.gather(*(reason(call) for call in calls)))
    assert told == {"UNKNOWN_KEY": 200, "BAD_SIGNATURE": 1}
    assert len(reads) < 100
    assert sorted(key for keys in reads for key in keys) == sorted([*made_up, ingest.key_id])


async def test_a_rotation_that_takes_its_time_holds_up_no_submission(
    ingest: Ingest, database: Database
) -> None:
    async with database.begin() as session:
        assert await repository_spider.get(session, UUID(ingest.spider_id), lock=True) is not None
        async with asyncio.timeout(5):
            assert (await ingest.call(submission())).accepted
