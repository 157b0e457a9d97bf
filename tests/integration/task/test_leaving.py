"""The last beat of a worker gives back at once what it was given without knowing."""

from __future__ import annotations

from frontrow.task.v1 import task_pb2
from frontrow.task.v1 import task_service_pb2 as pb

from libs.common.db import Database
from libs.common.lane import Lane
from libs.common.settings import DatabaseSettings
from libs.common.testing import eventually
from services.task import repository_queue
from services.task.loops.workers import WorkerRegistry
from tests.integration.task.service import Tasks, new_type, status_name


async def _last_beat(tasks: Tasks, worker: str, *named: task_pb2.Task) -> None:
    request = pb.HeartbeatRequest(worker_id=worker, leaving=True)
    for task in named:
        request.leases.add(task_id=task.id, version=task.version)
    await tasks.stub.Heartbeat(request, timeout=20)


async def test_what_a_leaving_worker_does_not_name_goes_back_at_once_and_uncharged(tasks: Tasks) -> None:
    kind, worker = new_type(), f"leaver-{new_type()}"
    for _ in range(3):
        await tasks.create(kind)
    mine = (await tasks.claim(kind, 2, worker=worker)).tasks
    [other] = (await tasks.claim(kind, 1, worker="another")).tasks
    await _last_beat(tasks, worker, mine[0])
    assert status_name(await tasks.get(mine[0].id)) == "PROCESSING"
    given_back = await tasks.get(mine[1].id)
    assert (status_name(given_back), given_back.attempt, given_back.status_reason) == (
        "PENDING",
        0,
        "REPLY_LOST",
    )
    assert status_name(await tasks.get(other.id)) == "PROCESSING"


async def test_a_version_that_is_over_does_not_stand_for_the_live_run(tasks: Tasks) -> None:
    kind, worker = new_type(), f"leaver-{new_type()}"
    await tasks.create(kind)
    [first] = (await tasks.claim(kind, worker=worker)).tasks
    await tasks.requeue(kind, 0.001)
    [second] = (await tasks.claim(kind, worker=worker)).tasks
    assert (first.id, first.version) != (second.id, second.version)
    await _last_beat(tasks, worker, first)
    assert status_name(await tasks.get(second.id)) == "PENDING"


async def test_a_worker_that_left_is_no_worker_any_more(tasks: Tasks) -> None:
    kind, worker = new_type(), f"leaver-{new_type()}"

    async def known() -> bool:
        listed = await tasks.stub.ListWorkers(pb.ListWorkersRequest(type=kind), timeout=20)
        return worker in {info.worker_id for info in listed.workers}

    await tasks.claim(kind, worker=worker)
    await eventually(known)
    await _last_beat(tasks, worker)

    async def unknown() -> bool:
        return not await known()

    await eventually(unknown)


async def test_a_worker_that_left_stays_away_whatever_another_server_has_yet_to_write_down(
    database: Database, database_url: str
) -> None:
    settings = DatabaseSettings(url=database_url)
    lanes = [Lane(settings, f"server-{number}") for number in range(2)]
    gone, late = (WorkerRegistry(lane) for lane in lanes)
    worker, kind = f"leaver-{new_type()}", new_type()
    late.saw(worker, [kind])
    gone.left(worker)
    await gone.step()
    await late.step()
    async with database.begin() as session:
        assert await repository_queue.live_workers(session, kind, after=None, limit=10) == []
    for lane in lanes:
        await lane.close()
