"""A call that finishes and claims gets the same answers whether one statement does it or several."""

from __future__ import annotations

from collections import Counter

from frontrow.task.v1 import queue_pb2
from frontrow.task.v1 import task_service_pb2 as pb

from tests.integration.task.service import (
    CALL_SECONDS,
    Tasks,
    completed,
    failed,
    new_type,
    outcome_name,
    released,
    status_name,
)


def _outcomes(answer: pb.ClaimTasksResponse) -> list[str]:
    return [outcome_name(result.outcome) for result in answer.finish_results]


async def test_every_kind_of_finish_is_answered_beside_what_is_claimed(tasks: Tasks) -> None:
    kind = new_type()
    made = [(await tasks.create(kind)).id for _ in range(8)]
    runs = list((await tasks.claim(kind, 5)).tasks)
    stale = completed(runs[4])
    stale.version += 7
    items = [
        completed(runs[0]),
        failed(runs[1]),
        failed(runs[2], retryable=True),
        released(runs[3], 60),
        stale,
    ]
    answer = await tasks.claim(kind, 5, finish=items)
    assert _outcomes(answer) == ["APPLIED", "FAILED", "REQUEUED", "REQUEUED", "LEASE_LOST"]
    assert {task.id for task in answer.tasks} >= set(made[5:])
    assert all((task.version, task.attempt) == (1, 1) for task in answer.tasks if task.id in made[5:])
    again = await tasks.claim(kind, 0, finish=items)
    assert _outcomes(again) == _outcomes(answer)


async def test_a_task_given_back_without_a_pause_may_be_claimed_by_the_same_call(tasks: Tasks) -> None:
    kind = new_type()
    await tasks.create(kind)
    run = await tasks.claim_one(kind)
    answer = await tasks.claim(kind, finish=[released(run)])
    assert _outcomes(answer) == ["REQUEUED"]
    assert [(task.id, task.version) for task in answer.tasks] == [(run.id, run.version + 2)]


async def test_under_a_limit_the_finish_makes_room_for_the_claim_of_the_same_call(tasks: Tasks) -> None:
    kind = new_type()
    for _ in range(3):
        await tasks.create(kind)
    request = pb.SetQueuePolicyRequest(type=kind, policy=queue_pb2.QueuePolicy(concurrency_limit=1))
    request.update_mask.paths.append("concurrency_limit")
    await tasks.stub.SetQueuePolicy(request, timeout=CALL_SECONDS)
    runs = list((await tasks.claim(kind, 3)).tasks)
    assert len(runs) == 1
    answer = await tasks.claim(kind, 3, finish=[completed(runs[0])])
    assert _outcomes(answer) == ["APPLIED"]
    assert len(answer.tasks) == 1


async def test_counters_agree_after_a_drain_by_finishes_and_claims(tasks: Tasks) -> None:
    kind = new_type()
    made = [(await tasks.create(kind)).id for _ in range(12)]
    answer = await tasks.claim(kind, 3)
    while answer.tasks:
        answer = await tasks.claim(kind, 3, finish=[completed(task) for task in answer.tasks])
    statuses = Counter([status_name(await tasks.get(task_id)) for task_id in made])
    assert statuses == {"COMPLETED": 12}
    queues = (await tasks.stub.ListQueues(pb.ListQueuesRequest(types=[kind]), timeout=CALL_SECONDS)).queues
    assert [(queue.pending, queue.processing, queue.completed) for queue in queues] == [(0, 0, 12)]
