"""`frontrow debug`: what each stage of a transcription did."""

import json
import sys
from dataclasses import dataclass, field
from typing import Any

import click
from frontrow.asr.v1 import debug_record_pb2, live_material_service_pb2, live_material_service_pb2_grpc

from cli.connection import CALL_SECONDS, Connection
from cli.output import as_dict, clock, console, json_option, print_json, print_table, size, word
from libs.common.client import reading

_GIST_CHARACTERS = 160


@dataclass
class Record:
    """A material's runs, and the stages of one of them as the bytes of their JSON."""

    runs: list[debug_record_pb2.DebugRun] = field(default_factory=list)
    run: int = 0
    stages: dict[str, bytes] = field(default_factory=dict)


@click.command()
@click.argument("material_id", metavar="MATERIAL")
@click.option("--run", default=0, metavar="N", help="The run to show; default: the newest.")
@click.option("--stage", default="", metavar="NAME", help="Print this stage whole, e.g. 999_fail.")
@click.option("--pin/--unpin", default=None, help="Keep the run's record for ever, or no longer.")
@json_option
@click.pass_obj
def debug(
    connection: Connection, material_id: str, *, run: int, stage: str, pin: bool | None, as_json: bool
) -> None:
    """Show a recording's transcription runs, and what each stage of one of them did.

    Records are kept for the newest runs, and for a recording's last failure for 30 days; a pinned one stays.

    \b
    Examples:
      frontrow debug MATERIAL
      frontrow debug MATERIAL --run 3 --stage 999_fail
      frontrow debug MATERIAL --run 3 --pin
    """
    record = connection.run("asr", _read(connection, material_id, run, pin))
    if stage:
        sys.stdout.write(_stage_text(record, stage))
    elif as_json:
        stages = {name: _parsed(content) for name, content in record.stages.items()}
        print_json({"runs": list(map(as_dict, record.runs)), "asr_version": record.run, "stages": stages})
    else:
        _print(record)


def _print(record: Record) -> None:
    print_table(
        ["run", "outcome", "began (UTC)", "ended (UTC)", "pinned"],
        [
            (
                run.asr_version,
                word(debug_record_pb2.DebugOutcome, run.outcome, "DEBUG_OUTCOME_"),
                clock(run.start_time),
                clock(run.end_time),
                "pinned" if run.pinned else "",
            )
            for run in record.runs
        ],
        empty="No run so far; `frontrow why TASK` says why.",
    )
    if not record.runs:
        return
    console.print(f"\nStages of run {record.run}:", style="bold", highlight=False)
    print_table(
        ["stage", "size", "in short"],
        [(name, size(len(content)), gist(_parsed(content))) for name, content in record.stages.items()],
        empty="None is kept: it has stored none yet, or its record was cleaned up.",
    )


def gist(stage: Any) -> str:
    """Return a stage's plain facts in one line: the error of a failure, else the fields that aren't lists."""
    if not isinstance(stage, dict):
        return ""
    if "reason" in stage and "message" in stage:
        text = f"{stage['reason']}: {stage['message']}"
    else:
        text = ", ".join(f"{name} {_plain(value)}" for name, value in stage.items() if _plain(value))
    text = " ".join(text.split())
    return text if len(text) <= _GIST_CHARACTERS else text[: _GIST_CHARACTERS - 1] + "…"


def _plain(value: Any) -> str:
    """Return a value as text; a list as its length, an object as nothing."""
    if isinstance(value, list):
        return f"({len(value)})"
    return "" if value is None or isinstance(value, dict) else str(value)


def _parsed(content: bytes) -> Any:
    """Return a stage's content; the text itself when a stage was cut off while it was read."""
    text = content.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _stage_text(record: Record, stage: str) -> str:
    """Return one stage, indented. Raises ClickException naming the stages that there are."""
    if stage not in record.stages:
        kept = ", ".join(record.stages) or "none"
        raise click.ClickException(f"run {record.run} has no stage {stage!r}; it has: {kept}")
    return json.dumps(_parsed(record.stages[stage]), indent=2, ensure_ascii=False) + "\n"


async def _read(connection: Connection, material_id: str, run: int, pin: bool | None) -> Record:
    """Pin or let go when asked to, then read the runs and the stages of one."""
    async with connection.channel("asr") as channel:
        stub = live_material_service_pb2_grpc.LiveMaterialServiceStub(channel)
        if pin is not None:
            wanted = run or (await _stream(stub, material_id, 0)).run
            if not wanted:
                raise click.ClickException("it has had no run so far: there is nothing to pin")
            request = live_material_service_pb2.PinDebugRecordRequest(
                live_material_id=material_id, asr_version=wanted, unpin=not pin
            )
            await stub.PinDebugRecord(request, timeout=CALL_SECONDS)
        return await _stream(stub, material_id, run)


async def _stream(
    stub: "live_material_service_pb2_grpc.LiveMaterialServiceAsyncStub", material_id: str, run: int
) -> Record:
    """Read a record to its end."""
    record = Record()
    request = live_material_service_pb2.GetDebugRecordRequest(live_material_id=material_id, asr_version=run)
    async with reading(stub.GetDebugRecord(request, timeout=CALL_SECONDS)) as answers:
        async for answer in answers:
            if answer.HasField("runs"):
                record.runs, record.run = list(answer.runs.runs), answer.runs.asr_version
            else:
                kept = record.stages.get(answer.stage.name, b"")
                record.stages[answer.stage.name] = kept + answer.stage.chunk
    return record
