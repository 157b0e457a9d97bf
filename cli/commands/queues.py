"""`frontrow queues`: how much waits and runs by type, and how each type is handled."""

from collections.abc import Sequence

import click
from frontrow.task.v1 import queue_pb2, task_service_pb2, task_service_pb2_grpc
from google.protobuf.duration_pb2 import Duration

from cli.connection import CALL_SECONDS, Connection
from cli.output import as_dict, console, json_option, print_json, print_table, several, span
from cli.paging import pages

_COLUMNS = ["type", "state", "waits", "oldest", "runs", "limit", "workers", "in/min", "out/min"]
_COLUMNS += ["completed", "failed", "cancelled", "also set"]


@click.group(invoke_without_command=True)
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only these: asr, ingest … Repeatable.")
@json_option
@click.pass_context
def queues(ctx: click.Context, types: tuple[str, ...], as_json: bool) -> None:
    """See what waits and runs, type by type; pause a type, resume it, limit it.

    A type appears with its first task, or when something is set for it.

    \b
    Examples:
      frontrow queues
      frontrow queues pause asr          no further run begins
      frontrow queues resume asr
      frontrow queues limit asr 2        at most two at once, over all workers
      frontrow queues limit asr 0        as many as there are workers for
      frontrow queues reset asr          takes back all that was set
    """
    if ctx.invoked_subcommand is not None:
        return
    connection: Connection = ctx.obj
    found = connection.run("task", _list(connection, types))
    if as_json:
        print_json([as_dict(queue) for queue in found])
    else:
        _print(found)


@queues.command()
@click.argument("kind", metavar="TYPE")
@json_option
@click.pass_obj
def pause(connection: Connection, kind: str, as_json: bool) -> None:
    """Hand out no further task of a type, on every server. Runs that have begun go on.

    \b
    Example:
      frontrow queues pause asr
    """
    queue = connection.run("task", _set(connection, policy_request(kind, paused=True)))
    begun = f"runs that began go on: {queue.processing}" if queue.processing else "none runs"
    _tell(queue, f"{kind} is paused; {begun}. `frontrow queues resume {kind}` ends the pause.", as_json)


@queues.command()
@click.argument("kind", metavar="TYPE")
@json_option
@click.pass_obj
def resume(connection: Connection, kind: str, as_json: bool) -> None:
    """Hand the tasks of a type out again.

    \b
    Example:
      frontrow queues resume asr
    """
    queue = connection.run("task", _set(connection, policy_request(kind, paused=False)))
    _tell(queue, f"{kind} is handed out again; {several(queue.pending, 'task')} waited.", as_json)


@queues.command()
@click.argument("kind", metavar="TYPE")
@click.argument("number", metavar="[N]", type=click.IntRange(0, 100_000), required=False)
@click.option("--lease", type=float, metavar="SECONDS", help="Silence after which a run counts as lost.")
@click.option(
    "--stall", type=float, metavar="SECONDS", help="Time without progress until it counts as stuck."
)
@click.option(
    "--attempts", type=click.IntRange(0, 100), help="Runs a new task may have when its creator names none."
)
@json_option
@click.pass_obj
def limit(
    connection: Connection,
    kind: str,
    *,
    number: int | None,
    lease: float | None,
    stall: float | None,
    attempts: int | None,
    as_json: bool,
) -> None:
    """Let at most N tasks of a type run at once, over all workers. Everywhere 0 means: the default.

    A lower limit ends nothing that runs. What isn't named stays as it is.

    \b
    Examples:
      frontrow queues limit asr 2
      frontrow queues limit asr 0                 no limit
      frontrow queues limit ai_slice --lease 300 --attempts 2
    """
    request = policy_request(kind, limit=number, lease=lease, stall=stall, attempts=attempts)
    if not request.update_mask.paths:
        raise click.UsageError(
            f"say what to set: frontrow queues limit {kind} 2, or --lease, --stall, --attempts"
        )
    queue = connection.run("task", _set(connection, request))
    _tell(queue, f"{kind}: {state(queue.policy)}.", as_json)


@queues.command()
@click.argument("kind", metavar="TYPE")
@json_option
@click.pass_obj
def reset(connection: Connection, kind: str, as_json: bool) -> None:
    """Take back all that was set for a type: it is handled as the servers' settings say.

    A type that never had a task is listed no more then.

    \b
    Examples:
      frontrow queues reset asr
      frontrow queues reset arsr         after a pause of a type that there isn't
    """
    request = policy_request(kind, paused=False, limit=0, lease=0, stall=0, attempts=0)
    queue = connection.run("task", _set(connection, request))
    known = "; no task of it is known" if unseen(queue) else ""
    _tell(queue, f"{kind} is handled as the servers' settings say{known}.", as_json)


def policy_request(
    kind: str,
    *,
    paused: bool | None = None,
    limit: int | None = None,
    lease: float | None = None,
    stall: float | None = None,
    attempts: int | None = None,
) -> task_service_pb2.SetQueuePolicyRequest:
    """Return a request whose mask names exactly what is not None."""
    request = task_service_pb2.SetQueuePolicyRequest(type=kind)
    values = {
        "paused": paused,
        "concurrency_limit": limit,
        "lease": None if lease is None else _duration(lease),
        "stall_limit": None if stall is None else _duration(stall),
        "max_attempts": attempts,
    }
    for field, value in values.items():
        if isinstance(value, Duration):
            getattr(request.policy, field).CopyFrom(value)
        elif value is not None:
            setattr(request.policy, field, value)
        if value is not None:
            request.update_mask.paths.append(field)
    return request


def _duration(seconds: float) -> Duration:
    length = Duration()
    length.FromMilliseconds(round(seconds * 1000))
    return length


def state(policy: queue_pb2.QueuePolicy) -> str:
    """Return a policy in words."""
    running = f"at most {policy.concurrency_limit} at once" if policy.concurrency_limit else "no limit"
    return ", ".join(filter(None, ["paused" if policy.paused else "", running, extras(policy)]))


def extras(policy: queue_pb2.QueuePolicy) -> str:
    """Return what of a policy differs from the server's settings, pause and limit aside."""
    parts = []
    if policy.HasField("lease"):
        parts.append(f"lease {span(policy.lease.ToMilliseconds() / 1000)}")
    if policy.HasField("stall_limit"):
        parts.append(f"stall limit {span(policy.stall_limit.ToMilliseconds() / 1000)}")
    if policy.max_attempts:
        parts.append(several(policy.max_attempts, "attempt"))
    return ", ".join(parts)


def unseen(queue: queue_pb2.Queue) -> bool:
    """Tell whether nothing is known of a type: no task that is kept or came lately, and no worker."""
    tasks = queue.pending + queue.processing + queue.completed + queue.failed + queue.cancelled
    return not (tasks or queue.workers or queue.created_per_minute or queue.ended_per_minute)


def queue_row(queue: queue_pb2.Queue) -> tuple[object, ...]:
    """Return a queue's line of the table."""
    waited = queue.oldest_pending_age.ToMilliseconds() / 1000
    return (
        queue.type,
        "paused" if queue.policy.paused else "ok",
        queue.pending,
        span(waited) if queue.HasField("oldest_pending_age") else "",
        queue.processing,
        queue.policy.concurrency_limit or "",
        queue.workers,
        f"{queue.created_per_minute:.1f}",
        f"{queue.ended_per_minute:.1f}",
        queue.completed,
        queue.failed,
        queue.cancelled,
        extras(queue.policy),
    )


def _tell(queue: queue_pb2.Queue, sentence: str, as_json: bool) -> None:
    """Say what was done, and show the queue as it is now."""
    if as_json:
        print_json(as_dict(queue))
    else:
        console.print(sentence, markup=False, highlight=False)
        if not unseen(queue):
            _print([queue])
    if unseen(queue) and queue.policy != queue_pb2.QueuePolicy():
        click.echo(
            f"No task of type {queue.type} is known, and no worker takes it: is it written right?\n"
            "  frontrow queues   lists the types that there are\n"
            f"  frontrow queues reset {queue.type}   takes back what was set",
            err=True,
        )


def _print(found: Sequence[queue_pb2.Queue]) -> None:
    empty = "No queues yet: a type appears with its first task."
    print_table(_COLUMNS, map(queue_row, found), empty=empty)


async def _list(connection: Connection, types: Sequence[str]) -> list[queue_pb2.Queue]:
    async with connection.channel("task") as channel:
        stub = task_service_pb2_grpc.TaskServiceStub(channel)
        request = task_service_pb2.ListQueuesRequest(types=types, page_size=1_000)
        return [queue async for page in pages(stub.ListQueues, request) for queue in page.queues]


async def _set(connection: Connection, request: task_service_pb2.SetQueuePolicyRequest) -> queue_pb2.Queue:
    """Set the policy and return the queue after it."""
    async with connection.channel("task") as channel:
        stub = task_service_pb2_grpc.TaskServiceStub(channel)
        answer = await stub.SetQueuePolicy(request, timeout=CALL_SECONDS)
        listed = task_service_pb2.ListQueuesRequest(types=[request.type])
        found = (await stub.ListQueues(listed, timeout=CALL_SECONDS)).queues
    return found[0] if found else queue_pb2.Queue(type=request.type, policy=answer.policy)
