"""Leases: beats keep them, silence loses them, lost replies are given back (domain.md 1.4–1.6)."""

from __future__ import annotations

import asyncio
import time

from sqlalchemy import text

from libs.common.db import Database
from libs.common.testing import eventually
from tests.conftest import Serve
from tests.integration.task.service import Tasks, completed, lease_name, new_type, serve_task, status_name


async def test_beats_without_progress_keep_a_run_for_many_leases(serve: Serve, database_url: str) -> None:
    tasks = Tasks(await serve_task(serve, database_url, lease_seconds=1.5, sweep_interval_seconds=0.1))
    kind = new_type()
    await tasks.create(kind)
    run = await tasks.claim_one(kind)
    until = time.monotonic() + 4
    while time.monotonic() < until:
        [lease] = await tasks.beat((run, None))
        assert lease_name(lease) == "RENEWED"
        await asyncio.wait({asyncio.ensure_future(tasks.get(run.id))}, timeout=0.1)
    assert await tasks.finish(completed(run)) == ["APPLIED"]
    await tasks.close()


async def test_a_beat_tells_the_new_end_of_the_lease(tasks: Tasks) -> None:
    kind = new_type()
    await tasks.create(kind)
    run = await tasks.claim_one(kind)
    [lease] = await tasks.beat((run, None))
    assert lease.lease_expire_time.ToNanoseconds() > run.lease_expire_time.ToNanoseconds()
    assert (await tasks.get(run.id)).lease_expire_time == lease.lease_expire_time


async def test_progress_never_goes_back_within_a_run(tasks: Tasks) -> None:
    kind = new_type()
    await tasks.create(kind)
    run = await tasks.claim_one(kind)
    seen = []
    for percent in (10, 50, 30, 0, 51):
        [lease] = await tasks.beat((run, percent))
        assert lease_name(lease) == "RENEWED"
        seen.append((await tasks.get(run.id)).progress)
    assert seen == [10, 50, 50, 50, 51]


async def test_beats_at_once_with_different_progress_keep_the_highest(tasks: Tasks) -> None:
    kind = new_type()
    await tasks.create(kind)
    run = await tasks.claim_one(kind)
    await asyncio.gather(*(tasks.beat((run, percent)) for percent in (5, 80, 20, 64)))
    assert (await tasks.get(run.id)).progress == 80


async def test_one_bad_lease_of_a_beat_does_not_fail_the_others(tasks: Tasks) -> None:
    kind = new_type()
    await tasks.create(kind)
    await tasks.create(kind)
    good, stale = (await tasks.claim(kind, 2)).tasks
    stale.version += 5
    answers = await tasks.beat((stale, 20), (good, 30))
    assert [lease_name(answer) for answer in answers] == ["LEASE_LOST", "RENEWED"]
    assert (await tasks.get(good.id)).progress == 30


async def test_a_run_without_progress_beyond_the_stall_limit_is_taken_back_though_it_beats(
    serve: Serve, database_url: str
) -> None:
    kind = new_type()
    tasks = Tasks(
        await serve_task(
            serve,
            database_url,
            lease_seconds=1.5,
            stall_seconds_by_type={kind: 2.0},
            sweep_interval_seconds=0.1,
        )
    )
    await tasks.create(kind)
    run = await tasks.claim_one(kind)

    async def lost() -> bool:
        [lease] = await tasks.beat((run, None))
        return lease_name(lease) == "LEASE_LOST"

    await eventually(lost)
    task = await tasks.get(run.id)
    assert (status_name(task), task.status_reason) == ("PENDING", "STALLED")
    await tasks.close()


async def test_a_rise_by_hundredths_of_a_per_cent_is_progress_that_nobody_is_shown(tasks: Tasks) -> None:
    kind = new_type()
    await tasks.create(kind)
    run = await tasks.claim_one(kind)
    rose = []
    for percent in (95.5, 95.5, 95.4, 95.51, 95, None, 95.51, 96, 95.99, 99.99, 100.99, 100):
        before = (await tasks.get(run.id)).progress_time.ToNanoseconds()
        [lease] = await tasks.beat((run, percent))
        assert lease_name(lease) == "RENEWED"
        if (await tasks.get(run.id)).progress_time.ToNanoseconds() > before:
            rose.append((percent, (await tasks.get(run.id)).progress))
    assert rose == [(95.5, 95), (95.51, 95), (96, 96), (99.99, 99), (100.99, 100)]


async def test_a_run_begins_again_without_the_hundredths_of_the_one_before(tasks: Tasks) -> None:
    kind = new_type()
    await tasks.create(kind)
    await tasks.beat((await tasks.claim_one(kind), 0.9))
    await tasks.requeue(kind, 0.000001)
    run = await tasks.claim_one(kind)
    before = (await tasks.get(run.id)).progress_time.ToNanoseconds()
    await tasks.beat((run, 0.1))
    assert (await tasks.get(run.id)).progress_time.ToNanoseconds() > before


async def test_a_run_whose_per_cent_stays_is_kept_while_its_hundredths_rise(
    serve: Serve, database_url: str
) -> None:
    kind = new_type()
    stall = {kind: 1.0}
    address = await serve_task(
        serve, database_url, lease_seconds=1.5, stall_seconds_by_type=stall, sweep_interval_seconds=0.1
    )
    tasks = Tasks(address)
    await tasks.create(kind)
    run = await tasks.claim_one(kind)
    hundredths, until = 0, time.monotonic() + 4
    while time.monotonic() < until:
        hundredths += 1
        [lease] = await tasks.beat((run, 95 + min(99, hundredths) / 100))
        assert lease_name(lease) == "RENEWED"
        await asyncio.wait({asyncio.ensure_future(tasks.get(run.id))}, timeout=0.1)
        await asyncio.sleep(0.1)
    assert (await tasks.get(run.id)).progress == 95
    await tasks.close()


async def test_a_server_that_has_just_started_takes_back_nothing_before_it_has_listened_for_a_lease(
    serve: Serve, database_url: str, database: Database
) -> None:
    kind = new_type()
    first = Tasks(await serve_task(serve, database_url))
    await first.create(kind)
    run = await first.claim_one(kind)
    async with database.begin() as session:
        # As after an outage of all servers: the last beat is long ago.
        await session.execute(
            text("UPDATE task.tasks SET heartbeat_at = now() - interval '1 hour' WHERE id = :id"),
            {"id": run.id},
        )
    began = time.monotonic()
    second = Tasks(await serve_task(serve, database_url, lease_seconds=1.5, sweep_interval_seconds=0.1))

    async def given_back() -> bool:
        return status_name(await second.get(run.id)) == "PENDING"

    await eventually(given_back)
    assert time.monotonic() - began > 1.4
    for tasks in (first, second):
        await tasks.close()


async def test_a_run_its_worker_never_names_is_given_back_after_two_beats_uncharged(
    serve: Serve, database_url: str
) -> None:
    settings = {"lost_claim_seconds": 0.2}
    servers = [Tasks(await serve_task(serve, database_url, **settings)) for _ in range(2)]
    kind = new_type()
    for _ in range(2):
        await servers[0].create(kind)
    known, lost = (await servers[0].claim(kind, 2, worker="w")).tasks

    # The count is on the row, so it doesn't matter which server hears a beat.
    async def given_back() -> bool:
        for tasks in servers:
            await tasks.beat((known, None), worker="w")
        return status_name(await servers[0].get(lost.id)) == "PENDING"

    await eventually(given_back)
    task = await servers[0].get(lost.id)
    assert (task.attempt, task.version, task.status_reason) == (0, 2, "REPLY_LOST")
    assert status_name(await servers[0].get(known.id)) == "PROCESSING"
    for tasks in servers:
        await tasks.close()


async def test_a_run_missing_from_one_beat_only_is_kept(serve: Serve, database_url: str) -> None:
    tasks = Tasks(await serve_task(serve, database_url, lost_claim_seconds=0.05))
    kind = new_type()
    await tasks.create(kind)
    run = await tasks.claim_one(kind, worker="w")
    for _ in range(5):
        await tasks.beat(worker="w")
        [lease] = await tasks.beat((run, None), worker="w")
        assert lease_name(lease) == "RENEWED"
    await tasks.close()


async def test_a_clock_that_jumped_or_a_long_outage_makes_no_run_stuck(
    serve: Serve, database_url: str, database: Database
) -> None:
    kind = new_type()
    settings = {"lease_seconds": 1.0, "sweep_interval_seconds": 0.1, "stall_seconds_by_type": {kind: 3.0}}
    began = time.monotonic()
    tasks = Tasks(await serve_task(serve, database_url, **settings))
    await tasks.create(kind)
    run = await tasks.claim_one(kind)
    async with database.begin() as session:
        # The database's clock is two hours ahead: all that was written before lies as far behind.
        await session.execute(
            text("UPDATE task.tasks SET progress_at = now() - interval '2 hours' WHERE id = :id"),
            {"id": run.id},
        )
    while time.monotonic() - began < 2.5:
        [lease] = await tasks.beat((run, None))
        assert lease_name(lease) == "RENEWED"
        await asyncio.wait({asyncio.ensure_future(tasks.get(run.id))}, timeout=0.1)

    async def stuck() -> bool:
        await tasks.beat((run, None))
        return (await tasks.get(run.id)).status_reason == "STALLED"

    # It made no progress while it could be heard, either.
    await eventually(stuck)
    await tasks.close()
