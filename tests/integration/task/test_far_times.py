"""The first and the last moment that a Timestamp can name, which the driver takes for infinity."""

from __future__ import annotations

import datetime

import pytest
from frontrow.task.v1 import task_service_pb2 as pb
from google.protobuf import timestamp_pb2

from libs.common.testing import eventually
from tests.integration.task.service import Tasks, new_type, status_name

FIRST = timestamp_pb2.Timestamp(seconds=-62_135_596_800)
LAST = timestamp_pb2.Timestamp(seconds=253_402_300_799, nanos=999_999_999)


@pytest.mark.parametrize(("moment", "claimed"), [(FIRST, 1), (LAST, 0)], ids=["first", "last"])
async def test_a_task_of_such_a_time_can_be_seen_and_holds_up_no_other(
    tasks: Tasks, moment: timestamp_pb2.Timestamp, claimed: int
) -> None:
    kind = new_type()
    made = await tasks.create(kind, run_after=moment)
    assert abs(made.run_after.ToNanoseconds() - moment.ToNanoseconds()) <= 2_000
    assert status_name(await tasks.get(made.id)) == "PENDING"
    listed = (await tasks.stub.ListTasks(pb.ListTasksRequest(types=[kind]), timeout=20)).tasks
    assert [task.id for task in listed] == [made.id]
    assert len((await tasks.claim(kind)).tasks) == claimed

    soon = timestamp_pb2.Timestamp()
    soon.FromDatetime(datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=0.3))
    later = await tasks.create(kind, run_after=soon)

    async def due() -> bool:
        return [task.id for task in (await tasks.claim(kind)).tasks] == [later.id]

    assert await eventually(due)


async def test_lists_take_such_times_for_no_bound(tasks: Tasks) -> None:
    kind = new_type()
    made = await tasks.create(kind)
    request = pb.ListTasksRequest(types=[kind], created_after=FIRST, created_before=LAST)
    assert [task.id for task in (await tasks.stub.ListTasks(request, timeout=20)).tasks] == [made.id]
