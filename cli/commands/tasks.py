"""`frontrow tasks`: what is being done, live."""

import contextlib
import sys

import click
from frontrow.task.v1 import task_pb2, task_service_pb2, task_service_pb2_grpc
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from cli.commands.tasks_create import create
from cli.connection import CALL_SECONDS, Connection
from cli.output import as_dict, clock, console, json_option, print_json, print_table, word
from libs.common.client import reading

_STATUSES = ["pending", "processing", "completed", "failed", "cancelled"]
# Columns of a terminal in which bars may be long.
_ROOMY = 100


@click.group(invoke_without_command=True)
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="TYPE",
    help="Only these: ingest, asr, ai_slice, ai_slice_draft, draft, or yours. Repeatable.",
)
@click.option(
    "--status", "statuses", multiple=True, type=click.Choice(_STATUSES), help="Only these. Repeatable."
)
@click.option("-k", "--keywords", default="", help="In the names; space is AND, | is OR: '利率 债券 | 股票'.")
@click.option("-n", "--limit", default=20, show_default=True, help="How many, newest first.")
@click.option("--once", is_flag=True, help="Print a table and leave (also when the output is no terminal).")
@json_option
@click.pass_context
def tasks(
    ctx: click.Context,
    *,
    types: tuple[str, ...],
    statuses: tuple[str, ...],
    keywords: str,
    limit: int,
    once: bool,
    as_json: bool,
) -> None:
    """Watch tasks with live progress bars; Ctrl-C leaves.

    \b
    Examples:
      frontrow tasks                            live, everything that runs or waits
      frontrow tasks --type asr --once          a table of the newest transcriptions
      frontrow tasks --type draft --type ai_slice_draft    editing drafts in the making
      frontrow tasks --status failed --once     what failed, and why
      frontrow tasks --json -n 100
      frontrow tasks create resize --payload '{"width": 320}'      for a worker of yours
      frontrow tasks cancel TASK
      frontrow tasks retry TASK
      frontrow why TASK                         why it isn't running, or what happened
    """
    if ctx.invoked_subcommand is not None:
        return
    connection: Connection = ctx.obj
    query = task_service_pb2.ListTasksRequest(
        types=types, statuses=[_status(name) for name in statuses], keywords=keywords, page_size=limit
    )
    if as_json or once or not sys.stdout.isatty():
        found = connection.run("task", _list(connection, query))
        if as_json:
            print_json([as_dict(task) for task in found])
        else:
            _print(found)
    else:
        with contextlib.suppress(click.Abort):  # Ctrl-C is how one leaves
            connection.run("task", _watch(connection, query))


@tasks.command()
@click.argument("task_id", metavar="TASK")
@json_option
@click.pass_obj
def cancel(connection: Connection, task_id: str, as_json: bool) -> None:
    """Cancel a task: a waiting one at once, a running one as soon as its worker hears of it.

    \b
    Example:
      frontrow tasks cancel 0198c0de-…
    """
    task = connection.run("task", _cancel(connection, task_id))
    if as_json:
        print_json(as_dict(task))
    elif task.status == task_pb2.TASK_STATUS_CANCELLED:
        console.print(f"cancelled: {task.type} {task.id}", highlight=False)
    else:
        console.print(
            f"asked {task.claimed_by} to stop; however its run ends, the task will be cancelled.\n"
            f"  frontrow why {task.id}   shows when",
            highlight=False,
        )


@tasks.command()
@click.argument("task_id", metavar="TASK")
@json_option
@click.pass_obj
def retry(connection: Connection, task_id: str, as_json: bool) -> None:
    """Put a failed or cancelled task back into its queue, with all of its attempts.

    \b
    Examples:
      frontrow tasks --status failed --once
      frontrow tasks retry 0198c0de-…
    """
    task = connection.run("task", _retry(connection, task_id))
    if as_json:
        print_json(as_dict(task))
    else:
        console.print(
            f"waits again: {task.type} {task.id}\n  frontrow tasks   shows its progress", highlight=False
        )


tasks.add_command(create)


async def _cancel(connection: Connection, task_id: str) -> task_pb2.Task:
    async with connection.channel("task") as channel:
        stub = task_service_pb2_grpc.TaskServiceStub(channel)
        request = task_service_pb2.CancelTaskRequest(task_id=task_id)
        return (await stub.CancelTask(request, timeout=CALL_SECONDS)).task


async def _retry(connection: Connection, task_id: str) -> task_pb2.Task:
    async with connection.channel("task") as channel:
        stub = task_service_pb2_grpc.TaskServiceStub(channel)
        request = task_service_pb2.RetryTaskRequest(task_id=task_id)
        return (await stub.RetryTask(request, timeout=CALL_SECONDS)).task


def _status(name: str) -> task_pb2.TaskStatus.ValueType:
    return task_pb2.TaskStatus.Value(f"TASK_STATUS_{name.upper()}")


async def _list(connection: Connection, query: task_service_pb2.ListTasksRequest) -> list[task_pb2.Task]:
    async with connection.channel("task") as channel:
        stub = task_service_pb2_grpc.TaskServiceStub(channel)
        return list((await stub.ListTasks(query, timeout=CALL_SECONDS)).tasks)


def _print(found: list[task_pb2.Task]) -> None:
    print_table(
        ["id", "type", "status", "%", "try", "created (UTC)", "what", "error"],
        [
            (
                task.id,
                task.type,
                word(task_pb2.TaskStatus, task.status, "TASK_STATUS_"),
                task.progress,
                f"{task.attempt}/{task.max_attempts}",
                clock(task.create_time),
                label(task),
                task.error_message[:120],
            )
            for task in found
        ],
        empty="No tasks. `frontrow materials add FILE` or `frontrow submit FILE` makes some.",
    )


def label(task: task_pb2.Task) -> str:
    """Return what a task works on, as people call it."""
    return task.video_project_name or task.live_material_name or task.subject


def short(text: str, width: int) -> str:
    """Return a label so short that its bar and what is beside it fit into so many columns."""
    cut = Text(text)
    cut.truncate(max(10, min(40, width - 58)), overflow="ellipsis")
    return cut.plain


async def _watch(connection: Connection, query: task_service_pb2.ListTasksRequest) -> None:
    """Draw one bar a task and follow the server's stream until Ctrl-C."""
    progress = Progress(
        TextColumn("{task.fields[kind]}"),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30 if console.width >= _ROOMY else 14),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
        console=console,
    )
    bars: dict[str, object] = {}
    watched = task_service_pb2.WatchTasksRequest(
        types=query.types, statuses=query.statuses, keywords=query.keywords
    )
    console.print("[dim]Waiting for tasks; Ctrl-C leaves.[/]")
    async with connection.channel("task") as channel:
        stub = task_service_pb2_grpc.TaskServiceStub(channel)
        with Live(progress, console=console, refresh_per_second=8):
            async with reading(stub.WatchTasks(watched)) as answers:
                async for answer in answers:
                    _draw(progress, bars, answer.task)


def _draw(progress: Progress, bars: dict[str, object], task: task_pb2.Task) -> None:
    """Bring one task's bar up to date."""
    state = word(task_pb2.TaskStatus, task.status, "TASK_STATUS_")
    if task.id not in bars:
        name = short(label(task), console.width)
        bars[task.id] = progress.add_task(name, total=100, kind=task.type, state=state)
    bar = bars[task.id]
    progress.update(
        bar,  # type: ignore[arg-type]  # rich's TaskID is a NewType of int
        completed=100 if task.status == task_pb2.TASK_STATUS_COMPLETED else task.progress,
        state=state,
    )
    if task.status == task_pb2.TASK_STATUS_FAILED:
        console.print(f"{label(task)} failed: {task.error_message}", style="red", markup=False)
