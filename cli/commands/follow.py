"""Stay with one task until it ends, with a progress bar."""

import click
from frontrow.task.v1 import task_pb2, task_service_pb2, task_service_pb2_grpc
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from cli.connection import Connection
from cli.output import console, word
from libs.common.client import reading

_ENDED = {
    task_pb2.TASK_STATUS_COMPLETED,
    task_pb2.TASK_STATUS_FAILED,
    task_pb2.TASK_STATUS_CANCELLED,
}


async def follow_task(connection: Connection, task_id: str, *, quiet: bool = False) -> task_pb2.Task:
    """Watch a task to its end and return it. Raises ClickException when the stream ends before."""
    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(bar_width=30),
        TextColumn("{task.percentage:>3.0f} %"),
    )
    async with connection.channel("task") as channel:
        stub = task_service_pb2_grpc.TaskServiceStub(channel)
        request = task_service_pb2.WatchTasksRequest(task_ids=[task_id])
        with Progress(*columns, TimeElapsedColumn(), console=console, disable=quiet) as progress:
            bar = progress.add_task("waiting", total=100)
            async with reading(stub.WatchTasks(request)) as answers:
                async for answer in answers:
                    task = answer.task
                    state = word(task_pb2.TaskStatus, task.status, "TASK_STATUS_")
                    done = task.status == task_pb2.TASK_STATUS_COMPLETED
                    progress.update(bar, completed=100 if done else task.progress, description=state)
                    if task.status in _ENDED:
                        return task
    raise click.ClickException("the task server stopped meanwhile; `frontrow tasks` shows where it is now")
