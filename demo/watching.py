"""Follow a task on the terminal until it ends."""

import asyncio

from frontrow.task.v1 import task_pb2, task_service_pb2, task_service_pb2_grpc
from rich.progress import Progress

from demo.instance import Instance
from demo.report import Deviation
from libs.common.client import reading

_ENDED = {
    task_pb2.TASK_STATUS_COMPLETED,
    task_pb2.TASK_STATUS_FAILED,
    task_pb2.TASK_STATUS_CANCELLED,
}
_LONGEST_SECONDS = 600.0


async def wait_for_task(instance: Instance, task_id: str, progress: Progress) -> task_pb2.Task:
    """Watch a task to its end and return it. Raises Deviation when it takes too long."""
    bar = progress.add_task("waiting", total=100)
    stub = task_service_pb2_grpc.TaskServiceStub(instance.channel("task"))
    request = task_service_pb2.WatchTasksRequest(task_ids=[task_id])
    try:
        async with asyncio.timeout(_LONGEST_SECONDS), reading(stub.WatchTasks(request)) as answers:
            async for answer in answers:
                task = answer.task
                state = task_pb2.TaskStatus.Name(task.status).removeprefix("TASK_STATUS_").lower()
                progress.update(bar, completed=task.progress, description=f"{task.type} {state}")
                if task.status in _ENDED:
                    return task
    except TimeoutError:
        raise Deviation(f"task {task_id} was not done within {_LONGEST_SECONDS:g} s") from None
    raise Deviation(f"the watch of task {task_id} ended before the task did")
