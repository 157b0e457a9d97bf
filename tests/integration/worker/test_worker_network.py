"""Answers that are held up in the network, or lost with the worker that asked for them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
from frontrow.task.v1 import task_service_pb2 as pb
from frontrow.worker import Completed, Dial, Outcome, Run, Worker

from libs.common.testing import eventually
from tests.conftest import Serve
from tests.integration.task.service import Tasks, completed, new_type, serve_task, status_name
from tests.integration.worker.support import reaches
from tests.soak.proxy import Proxy


class _BeatsGoStraight(Dial):
    """Reaches the server through a proxy for claims, and past it for beats."""

    def __init__(self, through: str, *, straight: str) -> None:
        super().__init__(through, plaintext=True)
        object.__setattr__(self, "_straight", Dial(straight))

    def sync(self) -> grpc.Channel:
        """Open the beats' channel."""
        straight: Dial = self._straight  # type: ignore[attr-defined]
        return straight.sync()


@asynccontextmanager
async def _proxied(tasks: Tasks) -> AsyncIterator[tuple[Proxy, str]]:
    """Put a proxy before a server; give it and its address."""
    host, _, port = tasks.address.rpartition(":")
    proxy = Proxy((host, int(port)))
    try:
        yield proxy, await proxy.start()
    finally:
        await proxy.stop()


async def _asks(tasks: Tasks, worker: Worker, kind: str) -> None:
    """Wait until the worker's claim has reached the server."""

    async def heard_of() -> bool:
        listed = await tasks.stub.ListWorkers(pb.ListWorkersRequest(type=kind), timeout=20)
        return worker.worker_id in {info.worker_id for info in listed.workers}

    await eventually(heard_of)


async def test_an_answer_held_up_beyond_the_lease_starts_no_handler(serve: Serve, database_url: str) -> None:
    tasks = Tasks(await serve_task(serve, database_url, lease_seconds=2, sweep_interval_seconds=0.2))
    async with _proxied(tasks) as (proxy, through):
        kind = new_type()
        begun: list[str] = []

        async def handle(run: Run) -> Outcome:
            begun.append(run.task_id)
            return Completed()

        worker = Worker(target=Dial(through, plaintext=True), types=[kind], handler=handle, concurrency=1)
        await worker.start()
        await _asks(tasks, worker, kind)
        # From here on the worker, which waits for a task, hears nothing.
        proxy.hold()
        made = await tasks.create(kind)
        await reaches(tasks, made.id, "PROCESSING")
        await reaches(tasks, made.id, "PENDING")
        [live] = (await tasks.claim(kind, wait=5, worker="another")).tasks
        proxy.flow()
        after = await tasks.create(kind)
        await reaches(tasks, after.id, "COMPLETED")
        await tasks.beat((live, None), worker="another")
        assert await tasks.finish(completed(live), worker="another") == ["APPLIED"]
        await worker.stop(grace_seconds=2)
    assert begun == [after.id]
    assert (await tasks.get(made.id)).version == 4
    await tasks.close()


async def test_an_answer_held_up_for_more_than_half_a_lease_is_worked_on_once_a_beat_has_renewed_it(
    serve: Serve, database_url: str
) -> None:
    tasks = Tasks(await serve_task(serve, database_url, lease_seconds=6))
    async with _proxied(tasks) as (proxy, through):
        kind = new_type()
        begun: list[int] = []

        async def handle(run: Run) -> Outcome:
            begun.append(run.version)
            return Completed()

        worker = Worker(target=Dial(through, plaintext=True), types=[kind], handler=handle, concurrency=1)
        await worker.start()
        await _asks(tasks, worker, kind)
        proxy.hold()
        made = await tasks.create(kind)
        await reaches(tasks, made.id, "PROCESSING")
        claimed_at = (await tasks.get(made.id)).start_time.ToNanoseconds() / 1e9
        await eventually(lambda: time.time() - claimed_at > 3.1)
        proxy.flow()
        await reaches(tasks, made.id, "COMPLETED")
        await worker.stop(grace_seconds=2)
    assert begun == [1]
    assert (await tasks.get(made.id)).version == 2
    await tasks.close()


async def test_a_task_whose_answer_is_on_the_wire_when_the_worker_stops_goes_back_at_once(
    address: str, tasks: Tasks
) -> None:
    async with _proxied(tasks) as (proxy, through):
        kind = new_type()
        begun: list[str] = []

        async def handle(run: Run) -> Outcome:
            begun.append(run.task_id)
            return Completed()

        dial = _BeatsGoStraight(through, straight=address)
        worker = Worker(target=dial, types=[kind], handler=handle, concurrency=1)
        await worker.start()
        await _asks(tasks, worker, kind)
        proxy.hold()
        made = await tasks.create(kind)
        await reaches(tasks, made.id, "PROCESSING")
        await worker.stop(grace_seconds=2)
    # No patience: the worker's last word has been answered, and the lease has most of a minute to go.
    task = await tasks.get(made.id)
    assert (status_name(task), task.attempt, task.status_reason) == ("PENDING", 0, "REPLY_LOST")
    assert begun == []


async def test_an_idle_worker_whose_server_answers_nothing_any_more_stops_within_five_seconds(
    tasks: Tasks,
) -> None:
    async with _proxied(tasks) as (proxy, through):

        async def handle(run: Run) -> Outcome:
            return Completed()

        kind = new_type()
        worker = Worker(target=Dial(through, plaintext=True), types=[kind], handler=handle, concurrency=1)
        await worker.start()
        await _asks(tasks, worker, kind)
        proxy.hold()
        began = time.monotonic()
        await worker.stop()
        assert time.monotonic() - began < 5
        proxy.flow()
