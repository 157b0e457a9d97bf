"""Submissions that share one statement: each gets its own verdict, and a bad one spoils only itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from uuid import UUID

import pytest
from sqlalchemy import func, select

from libs.common.db import Database, sqlstate
from libs.common.ids import uuid7
from libs.common.lane import Lane
from libs.common.settings import DatabaseSettings
from services.ingest.errors import ClockSkew, NonceReplayed, RequestIdReused, UnknownKey
from services.ingest.models import jobs, nonces, outbox
from services.ingest.repository_submit import Entry, Limits, NewJob
from services.ingest.submit_desk import SubmitDesk
from tests.integration.ingest.conftest import Ingest


@pytest.fixture
async def desk(database_url: str) -> AsyncIterator[SubmitDesk]:
    """Give a desk of its own over the module's database."""
    lane = Lane(DatabaseSettings(url=database_url), "test-desk", enable_hashjoin="on")
    made = SubmitDesk(lane, Limits(per_second=1000.0, burst=1000, window_seconds=300))
    yield made
    await made.drained()
    await lane.close()


def entry(key_id: str, number: int, *, nonce: str = "", request_id: str = "", **changes: object) -> Entry:
    values: dict[str, object] = {
        "job_id": uuid7(), "task_id": uuid7(), "request_id": request_id, "request_digest": b"one",
        "kind": "runway", "title": f"show {number}", "source": "vogue", "source_url": f"https://v/{number}",
        "gallery": b"gallery", "image_count": 1, "task_order": b"order", "trace_parent": "",
    }  # fmt: skip
    job = NewJob(**(values | changes))  # type: ignore[arg-type]
    return Entry(key_id, nonce or f"nonce-{job.job_id}", int(time.time()), job)


async def together(desk: SubmitDesk, *entries: Entry) -> list[object]:
    """Submit all in one flush: the first flush is under way when the others arrive."""
    first = asyncio.ensure_future(desk.submit(entry(entries[0].key_id, 0)))
    await asyncio.sleep(0)
    answers = await asyncio.gather(*(desk.submit(each) for each in entries), return_exceptions=True)
    await asyncio.wait({first})
    return [type(a) if isinstance(a, BaseException) else getattr(a, "accepted", a) for a in answers]


async def count(database: Database, table: object, spider_id: str) -> int:
    async with database.begin() as session:
        query = select(func.count()).where(table.c.spider_id == UUID(spider_id))  # type: ignore[attr-defined]
        return (await session.execute(query)).scalar_one()


async def test_each_call_of_a_flush_has_its_own_verdict(
    desk: SubmitDesk, ingest: Ingest, database: Database
) -> None:
    key = ingest.key_id
    late = entry(key, 3)._replace(signed_at=int(time.time()) - 400)
    answers = await together(
        desk,
        entry(key, 1),
        entry("fk_nobody", 2),
        late,
        entry(key, 4, nonce="same-nonce-0123456789", request_id="one"),
        entry(key, 5, nonce="same-nonce-0123456789"),
        entry(key, 6, request_id="one"),
        entry(key, 7, request_id="one", request_digest=b"two"),
        entry(key, 8)._replace(job=None),
    )
    assert answers == [True, UnknownKey, ClockSkew, True, NonceReplayed, False, RequestIdReused, None]
    assert await count(database, jobs, ingest.spider_id) == 3
    # the reused request id used its nonce up; nothing of the others was noted
    assert await count(database, nonces, ingest.spider_id) == 5
    async with database.begin() as session:
        subjects = select(outbox.c.subject).where(outbox.c.body == b"order")
        ordered = set((await session.execute(subjects)).scalars())
        made = select(jobs.c.id).where(jobs.c.spider_id == UUID(ingest.spider_id))
        assert {f"ingest_job:{job_id}" for job_id in (await session.execute(made)).scalars()} <= ordered


async def test_a_call_whose_values_cannot_be_stored_spoils_only_its_own_answer(
    desk: SubmitDesk, ingest: Ingest, database: Database
) -> None:
    calls = [entry(ingest.key_id, n, title="nul \x00" if n == 5 else f"show {n}") for n in range(1, 12)]
    answers = await together(desk, *calls)
    assert [n for n, answer in enumerate(answers, 1) if answer is not True] == [5]
    assert await count(database, jobs, ingest.spider_id) == 11
    assert await count(database, nonces, ingest.spider_id) == 11
    with pytest.raises(Exception, match="0x00") as caught:
        await desk.submit(calls[4])
    assert (sqlstate(caught.value) or "").startswith("22")


async def test_a_nonce_first_brought_by_a_call_that_is_refused_is_free_for_one_that_is_not(
    desk: SubmitDesk, ingest: Ingest
) -> None:
    late = entry(ingest.key_id, 1, nonce="late-nonce-0123456789")._replace(signed_at=1)
    good = entry(ingest.key_id, 2, nonce="late-nonce-0123456789")
    assert await together(desk, late, good) == [ClockSkew, True]


async def test_two_servers_with_the_same_nonces_and_request_ids_at_once_make_each_job_once(
    desk: SubmitDesk, ingest: Ingest, database: Database, database_url: str
) -> None:
    lane = Lane(DatabaseSettings(url=database_url), "test-desk-2", enable_hashjoin="on")
    other = SubmitDesk(lane, Limits(per_second=1000.0, burst=1000, window_seconds=300))
    for _ in range(5):
        calls = [
            [entry(ingest.key_id, n, nonce=f"{uuid7()}", request_id=f"r{uuid7()}") for n in range(20)],
            [],
        ]
        for each in reversed(calls[0]):
            assert each.job is not None
            fresh = entry(ingest.key_id, 0, request_id=each.job.request_id)
            calls[1].append(fresh._replace(nonce=each.nonce) if len(calls[1]) % 2 else fresh)
        answers = await asyncio.gather(together(desk, *calls[0]), together(other, *calls[1]))
        for mine, theirs in zip(answers[0], reversed(answers[1]), strict=True):
            assert [mine, theirs].count(True) == 1, (mine, theirs)
    assert await count(database, jobs, ingest.spider_id) == 5 * 22
    await other.drained()
    await lane.close()
