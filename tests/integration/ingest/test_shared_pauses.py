"""What a host asks of one worker holds for all of them, whichever process it asked."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest
from aiohttp import web
from frontrow.ingest.v1 import ingest_job_pb2, ingest_work_service_pb2
from frontrow.task.v1 import task_pb2
from sqlalchemy import text

from libs.common.db import Database
from libs.common.testing import eventually
from tests.integration.ingest.chain import Chain, worker_process
from tests.integration.ingest.conftest import Ingest
from tests.integration.ingest.runs import Run, reason, stored
from tests.integration.ingest.site import picture


async def _pause(ingest: Ingest, host: str, seconds: float) -> None:
    request = ingest_work_service_pb2.PauseHostRequest()
    request.host_pause.host = host
    request.host_pause.pause.FromTimedelta(timedelta(seconds=seconds))
    await ingest.work.PauseHost(request)


async def _told(run: Run, host: str) -> list[float]:
    """Return what is left of a host's pause as a begin says it, then as a record does."""
    begun = await run.begin(1)
    recorded = await run.record(1, stored("https://a/1.jpg"))
    pauses = [*begun.host_pauses, *recorded.host_pauses]
    return [told.pause.ToTimedelta().total_seconds() for told in pauses if told.host == host]


async def test_workers_are_told_of_a_pause_while_it_is_on_and_of_two_the_one_that_ends_later_counts(
    run: Run, database: Database
) -> None:
    host = f"{uuid4().hex}.example"
    assert await _told(run, host) == []
    for seconds in (60.0, 3600.0, 5.0):
        await _pause(run.ingest, host, seconds)
    left = await _told(run, host)
    assert len(left) == 2
    assert all(60 < seconds <= 3600 for seconds in left)
    async with database.begin() as session:
        await session.execute(text("UPDATE ingest.host_pauses SET until = now() - interval '1 s'"))
    assert await _told(run, host) == []
    await _pause(run.ingest, "another.example", 5)
    async with database.begin() as session:
        hosts = (await session.execute(text("SELECT host FROM ingest.host_pauses"))).scalars().all()
    assert hosts == ["another.example"]


@pytest.mark.parametrize(
    ("host", "seconds"), [("", 5), ("a" * 254, 5), ("a.example", 0), ("a.example", 3601)]
)
async def test_a_pause_without_bounds_is_refused(ingest: Ingest, host: str, seconds: float) -> None:
    assert await reason(_pause(ingest, host, seconds)) == "INVALID_ARGUMENT"


async def _is_told(database: Database) -> bool:
    async with database.begin() as session:
        asked = text("SELECT count(*) FROM ingest.host_pauses WHERE host = '127.0.0.1'")
        return bool((await session.execute(asked)).scalar_one())


async def test_a_host_that_asked_one_process_for_a_pause_gets_no_request_of_another(
    chain: Chain, article: str, database: Database
) -> None:
    one_is_held, release = asyncio.Event(), asyncio.Event()

    async def held(request: web.Request) -> web.StreamResponse:
        one_is_held.set()
        await release.wait()
        return web.Response(body=picture(61))

    async def busy(request: web.Request) -> web.StreamResponse:
        await one_is_held.wait()
        return web.Response(status=429, headers={"Retry-After": "60"})

    settings = {"concurrency": "1", "read_timeout_seconds": "60"}
    async with worker_process(chain, **settings), worker_process(chain, **settings):
        first = await chain.submit(
            chain.site.answer("busy", busy), chain.site.answer("held.jpg", held), url=article
        )
        await eventually(lambda: _is_told(database), 60)
        # By the other process: the first one has its hands full.
        second = await chain.submit(chain.site.picture("fine.jpg"), url=f"{article}/second")

        async def is_given_back() -> bool:
            job = await chain.job(second)
            task = await chain.task(job)
            return task.status == task_pb2.TASK_STATUS_PENDING and task.HasField("run_after")

        await eventually(is_given_back, 60)
        [image] = (await chain.job(second)).images
        assert (image.result, image.reason) == (ingest_job_pb2.IMAGE_RESULT_FAILED, "SERVER_BUSY")
        assert image.pauses == 0
        assert (await chain.job(first)).status == ingest_job_pb2.INGEST_JOB_STATUS_PROCESSING
        release.set()
    assert dict(chain.site.hits) == {"busy": 1, "held.jpg": 1}
