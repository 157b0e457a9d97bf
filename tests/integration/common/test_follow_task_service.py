"""The outbox, the typed calls and the follower together, against the task context itself."""

from collections.abc import AsyncIterator

import pytest
from frontrow.task.v1 import task_service_pb2

from libs.common.client import connect
from libs.common.db import Database
from libs.common.follow import Follower
from libs.common.outbox import OutboxRelay
from libs.common.outbox_table import enqueue
from libs.common.tasks import TaskPeer
from libs.common.testing import eventually
from tests.conftest import Serve
from tests.integration.common.follow_bed import Jobs, make_job_table
from tests.integration.common.outbox.bed import METADATA, OUTBOX, Refusals
from tests.integration.task.service import Tasks, failed, new_type, released, serve_task


@pytest.fixture(scope="module")
async def tables(database: Database) -> None:
    await make_job_table(database)
    async with database.begin() as session:
        await (await session.connection()).run_sync(METADATA.create_all)


class Side:
    """The following side of the wire: its rows, its outbox, its follower that looks only when woken."""

    def __init__(self, database: Database, peer: TaskPeer, task_type: str) -> None:
        self.jobs = Jobs(database)
        self.refusals = Refusals()
        senders = {"create": peer.create_sender, "cancel": peer.cancel_sender}
        self.relay = OutboxRelay(database, OUTBOX, senders, on_rejected=self.refusals, interval_seconds=3600)
        self.follower = Follower(peer, self.jobs, types=[task_type], interval_seconds=3600)
        self._database = database
        self.task_type = task_type

    async def submit(self, owner_id: str) -> str:
        """Make a row and have its task created, as a servicer does."""
        task_id = await self.jobs.add(owner_id)
        request = task_service_pb2.CreateTaskRequest(task_id=task_id, type=self.task_type, subject=owner_id)
        await self.send(owner_id, "create", request.SerializeToString())
        return task_id

    async def cancel(self, owner_id: str, task_id: str) -> None:
        request = task_service_pb2.CancelTaskRequest(task_id=task_id)
        await self.send(owner_id, "cancel", request.SerializeToString())

    async def send(self, subject: str, kind: str, body: bytes) -> None:
        async with self._database.begin() as session:
            await enqueue(session, OUTBOX, subject=subject, kind=kind, body=body)
        self.relay.wake()


@pytest.fixture
async def tasks(serve: Serve, database_url: str) -> AsyncIterator[Tasks]:
    client = Tasks(await serve_task(serve, database_url))
    yield client
    await client.close()


@pytest.fixture
async def side(database: Database, tables: None, tasks: Tasks) -> AsyncIterator[Side]:
    async with connect(tasks.address) as channel:
        made = Side(database, TaskPeer(channel), new_type())
        await made.relay.start()
        await made.follower.start()
        yield made
        await made.follower.stop()
        await made.relay.stop()


async def test_a_row_follows_its_task_through_release_failure_and_a_persons_retry(
    side: Side, tasks: Tasks
) -> None:
    task_id = await side.submit("a")
    first = (await tasks.claim(side.task_type, wait=10)).tasks[0]
    assert first.id == task_id
    await tasks.finish(released(first))
    await eventually(lambda: side.jobs.acts == [("requeued", "a", 2)])
    second = await tasks.claim_one(side.task_type)
    await tasks.finish(failed(second, "no audio"))
    await eventually(lambda: len(side.jobs.acts) == 2)
    assert await side.jobs.row("a") == ("failed", 4, "FAILED", "no audio")
    await tasks.retry(task_id)
    await eventually(lambda: len(side.jobs.acts) == 3)
    assert side.jobs.acts[2] == ("requeued", "a", 5)


async def test_a_task_created_and_cancelled_by_the_outbox_in_one_breath_ends_cancelled(
    side: Side, tasks: Tasks
) -> None:
    task_id = await side.submit("b")
    await side.cancel("b", task_id)
    await eventually(lambda: side.jobs.acts == [("ended", "b", 1)])
    assert (await side.jobs.row("b"))[2] == "CANCELLED"
    await side.cancel("b", task_id)
    await side.submit("c")
    await tasks.claim(side.task_type, wait=10)
    assert side.refusals.seen == []


async def test_a_create_that_can_never_succeed_is_reported_for_its_row(side: Side) -> None:
    request = task_service_pb2.CreateTaskRequest(task_id="no uuid", type=side.task_type)
    await side.send("d", "create", request.SerializeToString())
    await eventually(lambda: len(side.refusals.seen) == 1)
    subject, kind, _, reason = side.refusals.seen[0]
    assert (subject, kind) == ("d", "create")
    assert reason.startswith("INVALID_ARGUMENT")
