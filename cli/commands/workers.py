"""`frontrow workers`: who works, and on what."""

import click
from frontrow.task.v1 import queue_pb2, task_service_pb2, task_service_pb2_grpc

from cli.connection import Connection
from cli.output import as_dict, clock, json_option, print_json, print_table
from cli.paging import pages


@click.command()
@click.option("--type", "kind", default="", metavar="TYPE", help="Only workers that take this type.")
@json_option
@click.pass_obj
def workers(connection: Connection, kind: str, as_json: bool) -> None:
    """List the worker processes heard of in the last three minutes, and the runs that each holds.

    \b
    Examples:
      frontrow workers
      frontrow workers --type asr
      frontrow workers --json | jq '.[].leases[].task_id'
    """
    found = connection.run("task", _list(connection, kind))
    if as_json:
        print_json([as_dict(worker) for worker in found])
        return
    print_table(
        ["worker", "takes", "since (UTC)", "heard of (UTC)", "holds", "%", "lease till (UTC)"],
        [row for worker in found for row in worker_rows(worker)],
        empty=f"No worker{f' for {kind}' if kind else ''} was heard of in three minutes. "
        "`frontrow up` starts all of them here.",
    )


def worker_rows(worker: queue_pb2.WorkerInfo) -> list[tuple[object, ...]]:
    """Return a worker's lines: one a run that it holds, at least one."""
    head = (
        worker.worker_id,
        ", ".join(worker.types),
        clock(worker.first_seen_time),
        clock(worker.last_seen_time),
    )
    if not worker.leases:
        return [(*head, "nothing", "", "")]
    return [
        (
            *(head if index == 0 else ("", "", "", "")),
            f"{lease.type} {lease.task_id}",
            lease.progress,
            clock(lease.lease_expire_time),
        )
        for index, lease in enumerate(worker.leases)
    ]


async def _list(connection: Connection, kind: str) -> list[queue_pb2.WorkerInfo]:
    async with connection.channel("task") as channel:
        stub = task_service_pb2_grpc.TaskServiceStub(channel)
        request = task_service_pb2.ListWorkersRequest(type=kind, page_size=1_000)
        return [worker async for page in pages(stub.ListWorkers, request) for worker in page.workers]
