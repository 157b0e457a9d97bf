"""A shorter lease that a person sets costs no run that beats as it was told to."""

from __future__ import annotations

from typing import Any

import pytest
from frontrow.task.v1 import queue_pb2, task_pb2, work_pb2
from frontrow.task.v1 import task_service_pb2 as pb
from google.protobuf.field_mask_pb2 import FieldMask
from sqlalchemy import text

from libs.common.db import Database
from libs.common.testing import eventually
from services.task import policies, repository_queue
from services.task.repository_queue import READ_BY_ALL_SECONDS
from tests.conftest import Serve
from tests.integration.task.service import CALL_SECONDS, Tasks, lasting, lease_name, new_type, serve_task

LONGER_SECONDS, SHORTER_SECONDS = 60.0, 2.0
USUAL_SECONDS = 60.0


async def _set_lease(tasks: Tasks, kind: str, seconds: float) -> None:
    policy = queue_pb2.QueuePolicy(lease=lasting(seconds))
    change = pb.SetQueuePolicyRequest(type=kind, policy=policy, update_mask=FieldMask(paths=["lease"]))
    await tasks.stub.SetQueuePolicy(change, timeout=CALL_SECONDS)


async def _beat(tasks: Tasks, run: task_pb2.Task) -> float:
    """Renew a run; return the pause until the next beat, in seconds."""
    beat = pb.HeartbeatRequest(worker_id="w1", leases=[work_pb2.Lease(task_id=run.id, version=run.version)])
    answer = await tasks.stub.Heartbeat(beat, timeout=CALL_SECONDS)
    assert [lease_name(lease) for lease in answer.results] == ["RENEWED"]
    return answer.beat_interval.ToTimedelta().total_seconds()


@pytest.mark.parametrize("sweeps", ["since before", "since after"])
async def test_a_run_that_beats_as_it_was_told_keeps_its_lease(
    serve: Serve, database_url: str, sweeps: str
) -> None:
    usual = {"lease_seconds": SHORTER_SECONDS}
    sweeping = usual | {"sweep_interval_seconds": 0.2}
    resting = usual | {"sweep_interval_seconds": 600}
    tasks = Tasks(
        await serve_task(serve, database_url, **(sweeping if sweeps == "since before" else resting))
    )
    kind = new_type()
    await _set_lease(tasks, kind, LONGER_SECONDS)
    await tasks.create(kind)
    run = await tasks.claim_one(kind)

    async def is_told_the_longer() -> bool:
        return await _beat(tasks, run) > SHORTER_SECONDS

    await eventually(is_told_the_longer)
    await _set_lease(tasks, kind, SHORTER_SECONDS)
    if sweeps == "since after":
        await serve_task(serve, database_url, **sweeping)
    # What was always told the shorter lease and is silent for longer shows that a sweep looked.
    other = new_type()
    await tasks.create(other)
    silent = await tasks.claim_one(other)

    async def silent_is_lost() -> bool:
        return (await tasks.get(silent.id)).status_reason == "STALE"

    await eventually(silent_is_lost, 20)
    assert await _beat(tasks, run) < SHORTER_SECONDS
    await tasks.close()


class _Policy:
    """The policy of a type whose usual lease is 60 s, as every server reads it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kind = new_type()

    async def set(self, **values: Any) -> None:
        """Set some fields."""
        usual = {"usual_lease_seconds": USUAL_SECONDS}
        await policies.set_policy(self._database, self._kind, values, "somebody", **usual)

    async def kept(self) -> float:
        """Return the longer lease that still counts, 0 for none."""
        async with self._database.begin() as session:
            return (await repository_queue.policies(session))[self._kind].longer_lease_seconds

    async def pass_by(self, seconds: float) -> None:
        """Let time pass for what is stored."""
        earlier = (
            "UPDATE task.queue_policies SET longer_lease_until = longer_lease_until - "
            "make_interval(secs => :seconds) WHERE type = :type"
        )
        async with self._database.begin() as session:
            await session.execute(text(earlier), {"seconds": seconds, "type": self._kind})


@pytest.fixture
async def policy(database: Database) -> _Policy:
    """Give the policy of a type of its own, none yet."""
    return _Policy(database)


async def test_the_longer_lease_counts_until_nobody_can_go_by_it(policy: _Policy) -> None:
    await policy.set(lease_seconds=5)
    assert await policy.kept() == USUAL_SECONDS
    await policy.pass_by(USUAL_SECONDS + READ_BY_ALL_SECONDS - 10)
    assert await policy.kept() == USUAL_SECONDS
    await policy.pass_by(10)
    assert await policy.kept() == 0


async def test_a_longer_lease_leaves_nothing_behind(policy: _Policy) -> None:
    await policy.set(lease_seconds=90)
    assert await policy.kept() == 0


async def test_the_usual_lease_may_be_the_shorter_one(policy: _Policy) -> None:
    await policy.set(lease_seconds=90)
    await policy.set(lease_seconds=0)
    assert await policy.kept() == 90


async def test_steps_down_keep_the_longest_that_was_told(policy: _Policy) -> None:
    await policy.set(lease_seconds=30)
    await policy.pass_by(100)
    await policy.set(lease_seconds=5)
    await policy.pass_by(100)
    assert await policy.kept() == USUAL_SECONDS


async def test_one_whose_time_is_over_counts_no_more_at_the_next_step(policy: _Policy) -> None:
    await policy.set(lease_seconds=30)
    await policy.pass_by(USUAL_SECONDS + READ_BY_ALL_SECONDS)
    await policy.set(lease_seconds=5)
    assert await policy.kept() == 30


async def test_another_field_changes_no_lease(policy: _Policy) -> None:
    await policy.set(lease_seconds=30)
    await policy.set(paused=True)
    assert await policy.kept() == USUAL_SECONDS
