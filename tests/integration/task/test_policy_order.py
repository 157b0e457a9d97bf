"""Claims, ends and sweeps that touch several types with policies must not wait for each other in a circle."""

from __future__ import annotations

import asyncio

import asyncpg
from frontrow.task.v1 import task_pb2
from frontrow.task.v1 import task_service_pb2 as pb

from tests.conftest import Serve
from tests.integration.task.service import Tasks, completed, new_type, serve_task
from tests.integration.task.test_queues import set_policy

TURNS = 60


async def test_ends_claims_and_sweeps_of_limited_types_on_two_servers_never_deadlock(
    serve: Serve, database_url: str, tasks: Tasks
) -> None:
    kinds = [new_type(), new_type()]
    servers = (tasks, Tasks(await serve_task(serve, database_url, sweep_interval_seconds=0.05)))
    for kind in kinds:
        await set_policy(tasks, kind, concurrency_limit=50)
        for start in range(0, 5 * TURNS, 100):
            requests = [pb.CreateTaskRequest(type=kind, request_id=f"{kind}{start + n}") for n in range(100)]
            await tasks.stub.BatchCreateTasks(pb.BatchCreateTasksRequest(requests=requests), timeout=20)

    async def finish_one_type_and_claim_the_other(server: Tasks, number: int) -> None:
        held: list[task_pb2.Task] = []
        for turn in range(TURNS):
            kind = kinds[(number + turn) % 2]
            ends = [completed(run) for run in held]
            held = list((await server.claim(kind, 2, worker=f"w{number}", finish=ends)).tasks)
            assert held

    workers = [finish_one_type_and_claim_the_other(servers[number // 2], number) for number in range(4)]
    await asyncio.gather(*workers)
    connection = await asyncpg.connect(database_url)
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    assert await connection.fetchval(deadlocks) == 0
    await connection.close()
    await servers[1].close()
