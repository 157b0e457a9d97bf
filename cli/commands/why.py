"""`frontrow why`: why a task isn't running, or what happened to it, run by run."""

from collections.abc import Sequence

import click
from frontrow.task.v1 import queue_pb2, task_pb2, task_service_pb2, task_service_pb2_grpc

from cli.connection import CALL_SECONDS, Connection
from cli.output import as_dict, clock, console, json_option, print_json, print_table, several, span

_ENDED_BADLY = {task_pb2.TASK_STATUS_FAILED, task_pb2.TASK_STATUS_CANCELLED}


@click.command()
@click.argument("task_id", metavar="TASK")
@json_option
@click.pass_obj
def why(connection: Connection, task_id: str, as_json: bool) -> None:
    """Say why a task isn't running, or what happened to it, run by run.

    A task may wait because its type is paused or at its limit, because no worker takes its type, because it
    is due later, or because others are ahead. For a running one you see who has it and how long the lease
    holds; late writes of runs that had ended were refused and are counted.

    \b
    Examples:
      frontrow tasks --once          ids of tasks
      frontrow why 0198c0de-…
      frontrow why 0198c0de-… --json | jq '.runs[-1]'
    """
    told = connection.run("task", _explain(connection, task_id))
    if as_json:
        print_json(as_dict(told))
        return
    console.print(told.summary, style="bold", markup=False, highlight=False)
    task = told.task
    about = task.video_project_name or task.live_material_name
    console.print(
        f"task {task.id}, type {task.type}, {task.subject}{f' ({about})' if about else ''}", style="dim"
    )
    print_table(
        ["run", "worker", "began (UTC)", "took", "ended as", "the task then", "reason", "late writes"],
        run_rows(told.runs),
        empty="No run so far.",
    )
    if told.earlier_runs:
        console.print(f"before these: {several(told.earlier_runs, 'earlier run')}", style="dim")
    for line in advice(told):
        console.print(f"  {line}", markup=False, highlight=False)


def run_rows(runs: Sequence[queue_pb2.TaskRun]) -> list[tuple[object, ...]]:
    """Return the table of runs, oldest first."""
    return [
        (
            run.version,
            run.worker_id,
            clock(run.start_time),
            _took(run),
            run.ended_as or "running",
            run.outcome,
            run.reason,
            f"{run.late_writes} refused" if run.late_writes else "",
        )
        for run in runs
    ]


def _took(run: queue_pb2.TaskRun) -> str:
    if not run.HasField("end_time"):
        return ""
    return span((run.end_time.ToDatetime() - run.start_time.ToDatetime()).total_seconds())


def advice(told: task_service_pb2.ExplainTaskResponse) -> list[str]:
    """Return what a person can do about it, one line each; empty when nothing needs doing."""
    task = told.task
    by_kind = {
        queue_pb2.HINDRANCE_KIND_PAUSED: f"frontrow queues resume {task.type}   hands its tasks out again",
        queue_pb2.HINDRANCE_KIND_LIMIT: f"frontrow queues limit {task.type} N   lets more run at once",
        queue_pb2.HINDRANCE_KIND_NO_WORKER: "frontrow workers   shows who is there; frontrow up starts some",
        queue_pb2.HINDRANCE_KIND_QUEUED: "frontrow queues   shows how fast they are worked off",
    }
    lines = [by_kind[reason.kind] for reason in told.hindrances if reason.kind in by_kind]
    late = sum(run.late_writes for run in told.runs)
    if late:
        lines.append(f"{several(late, 'late write')} of ended runs came in and changed nothing.")
    if task.status in _ENDED_BADLY:
        lines += _again(task)
    return lines


def _again(task: task_pb2.Task) -> list[str]:
    """Return how to look closer at a task that ended badly, and how to run it again."""
    owner, _, owner_id = task.subject.partition(":")
    if owner == "ingest_job":
        return [
            f"frontrow jobs {owner_id}   shows each image's outcome",
            f"frontrow jobs retry {owner_id}   runs it again",
        ]
    lines = [f"frontrow tasks retry {task.id}   runs it again"]
    if owner == "live_material" and task.type == "asr":
        lines.insert(0, f"frontrow debug {owner_id}   shows what each stage did")
    return lines


async def _explain(connection: Connection, task_id: str) -> task_service_pb2.ExplainTaskResponse:
    async with connection.channel("task") as channel:
        stub = task_service_pb2_grpc.TaskServiceStub(channel)
        request = task_service_pb2.ExplainTaskRequest(task_id=task_id)
        return await stub.ExplainTask(request, timeout=CALL_SECONDS)
