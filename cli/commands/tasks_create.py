"""`frontrow tasks create`: a task for a worker of one's own."""

import json
import time

import click
from frontrow.task.v1 import task_service_pb2, task_service_pb2_grpc
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.struct_pb2 import Struct

from cli.connection import CALL_SECONDS, Connection
from cli.output import as_dict, console, json_option, print_json

# Tasks of these belong to something else, which orders them.
_ORDERED_BY = {
    "ingest": "frontrow submit FILE",
    "asr": "frontrow materials add FILE",
    "ai_slice": "frontrow slice MATERIAL_ID",
    "ai_slice_draft": "frontrow slice MATERIAL_ID --draft FORMAT",
    "draft": "frontrow draft make PROJECT",
}


@click.command()
@click.argument("kind", metavar="TYPE")
@click.option("--payload", default="{}", metavar="JSON", help="An object: the worker's input, up to 16 KiB.")
@click.option("--subject", default="", help="What it works on, e.g. picture:17; lists show it.")
@click.option(
    "--priority", type=click.IntRange(-1000, 1000), default=0, show_default=True,
    help="Each unit puts it 60 s further ahead.",
)  # fmt: skip
@click.option("--delay", type=click.FloatRange(0), default=0.0, metavar="SECONDS", help="Not before that.")
@click.option(
    "--attempts", type=click.IntRange(0, 100), default=0, help="Runs at most; 0: the type's default."
)
@click.option("--request-id", default="", help="The same again makes no second task.")
@json_option
@click.pass_obj
def create(
    connection: Connection,
    kind: str,
    *,
    payload: str,
    subject: str,
    priority: int,
    delay: float,
    attempts: int,
    request_id: str,
    as_json: bool,
) -> None:
    """Create a task of a TYPE of your own, for a worker of yours.

    \b
    Examples:
      frontrow tasks create resize --payload '{"width": 320}' --subject picture:17
      frontrow tasks create resize --delay 60 --request-id nightly-2026-12-01
    """
    if kind in _ORDERED_BY:
        raise click.UsageError(f"tasks of type {kind} come with what they are for: {_ORDERED_BY[kind]}")
    request = task_service_pb2.CreateTaskRequest(
        type=kind, payload=read_payload(payload), subject=subject, priority=priority,
        max_attempts=attempts, request_id=request_id,
    )  # fmt: skip
    if delay:
        request.run_after.FromMilliseconds(round((time.time() + delay) * 1000))
    answer = connection.run("task", _create(connection, request))
    if as_json:
        print_json(as_dict(answer))
        return
    made = "created" if answer.created else "there already"
    console.print(f"{made}: {kind} {answer.task.id}", markup=False, highlight=False)
    console.print(
        f"  frontrow why {answer.task.id}   tells what becomes of it", markup=False, highlight=False
    )


def read_payload(text: str) -> Struct:
    """Return a payload of JSON. Raises UsageError for what is no object."""
    try:
        return ParseDict(json.loads(text), Struct())
    except (ValueError, ParseError) as error:
        raise click.UsageError(
            f"--payload takes a JSON object such as '{{\"width\": 320}}': {error}"
        ) from error


async def _create(
    connection: Connection, request: task_service_pb2.CreateTaskRequest
) -> task_service_pb2.CreateTaskResponse:
    async with connection.channel("task") as channel:
        stub = task_service_pb2_grpc.TaskServiceStub(channel)
        return await stub.CreateTask(request, timeout=CALL_SECONDS)
