"""The quick look for NUL finds exactly what the one with paths finds."""

import pytest
from frontrow.task.v1 import task_service_pb2, work_pb2
from google.protobuf import struct_pb2

from libs.common.interceptors.text import fields_with_nul, has_nul


def struct(**values) -> struct_pb2.Struct:
    """Return a Struct."""
    made = struct_pb2.Struct()
    made.update(values)
    return made


@pytest.mark.parametrize(
    ("message", "paths"),
    [
        (work_pb2.FinishItem(task_id="a", version=1, completed=work_pb2.RunCompleted()), []),
        (task_service_pb2.ClaimTasksRequest(types=["a", "b\0"]), ["types[1]"]),
        (
            task_service_pb2.ClaimTasksRequest(
                worker_id="w", finish=[work_pb2.FinishItem(failed=work_pb2.RunFailed(message="\0"))]
            ),
            ["finish[0].failed.message"],
        ),
        (task_service_pb2.CreateTaskRequest(payload=struct(a=0, b=["x", {"c": "\0"}])), None),
        (task_service_pb2.CreateTaskRequest(payload=struct(**{"\0": 1})), None),
        (task_service_pb2.CreateTaskRequest(payload=struct(a=0.0, b=[0, {"c": "x"}])), []),
    ],
)
def test_both_looks_agree(message, paths):
    found = list(fields_with_nul(message))
    assert has_nul(message) is bool(found)
    if paths is None:
        assert found
    else:
        assert found == paths
