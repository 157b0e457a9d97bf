"""A shorter lease that a person sets costs no run that beats as it was told to."""

from __future__ import annotations

import asyncio

from frontrow.task.v1 import queue_pb2, work_pb2
from frontrow.task.v1 import task_service_pb2 as pb
from google.protobuf.field_mask_pb2 import FieldMask

from tests.conftest import Serve
from tests.integration.task.service import CALL_SECONDS, Tasks, lasting, lease_name, new_type, serve_task

LEASE_SECONDS, SHORTER_SECONDS = 9.0, 2.0


async def test_a_run_that_beats_as_it_was_told_keeps_its_lease(serve: Serve, database_url: str) -> None:
    settings = {"lease_seconds": LEASE_SECONDS, "sweep_interval_seconds": 0.2}
    tasks = Tasks(await serve_task(serve, database_url, **settings))
    kind = new_type()
    await tasks.create(kind)
    claimed = await tasks.claim(kind)
    [run] = claimed.tasks
    policy = queue_pb2.QueuePolicy(lease=lasting(SHORTER_SECONDS))
    change = pb.SetQueuePolicyRequest(type=kind, policy=policy, update_mask=FieldMask(paths=["lease"]))
    await tasks.stub.SetQueuePolicy(change, timeout=CALL_SECONDS)
    pause = claimed.beat_interval
    assert pause.ToTimedelta().total_seconds() > SHORTER_SECONDS
    beat = pb.HeartbeatRequest(worker_id="w1", leases=[work_pb2.Lease(task_id=run.id, version=run.version)])
    for _ in range(2):
        await asyncio.sleep(pause.ToTimedelta().total_seconds())
        answer = await tasks.stub.Heartbeat(beat, timeout=CALL_SECONDS)
        assert [lease_name(lease) for lease in answer.results] == ["RENEWED"]
        pause = answer.beat_interval
    assert pause.ToTimedelta().total_seconds() < SHORTER_SECONDS
    await tasks.close()
