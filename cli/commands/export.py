"""`frontrow export`: a transcript as subtitles, text or JSON."""

import sys
from pathlib import Path, PurePath
from typing import BinaryIO

import click
from frontrow.asr.v1 import live_material_service_pb2, live_material_service_pb2_grpc

from cli.connection import Connection
from cli.output import size
from libs.common.client import reading

_EXPORT_SECONDS = 300.0
FORMATS = {
    "srt": live_material_service_pb2.EXPORT_FORMAT_SRT,
    "vtt": live_material_service_pb2.EXPORT_FORMAT_VTT,
    "txt": live_material_service_pb2.EXPORT_FORMAT_TXT,
    "json": live_material_service_pb2.EXPORT_FORMAT_JSON,
}


@click.command()
@click.argument("material_id", metavar="MATERIAL")
@click.option(
    "-f",
    "--format",
    "kind",
    type=click.Choice(list(FORMATS)),
    default="txt",
    show_default=True,
    help="As what.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write this file, or into this folder under the recording's name. Default: standard output.",
)
@click.pass_obj
def export(connection: Connection, material_id: str, *, kind: str, output: Path | None) -> None:
    """Write a transcript: subtitles (srt, vtt), text with its topics (txt), or everything (json).

    \b
    Examples:
      frontrow export MATERIAL --format srt -o live.srt
      frontrow export MATERIAL --format vtt -o subtitles/
      frontrow export MATERIAL --format json | jq '.topics[].title'
    """
    request = live_material_service_pb2.ExportTranscriptRequest(
        live_material_id=material_id, format=FORMATS[kind]
    )
    if output is None:
        connection.run("asr", _write(connection, request, sys.stdout.buffer))
        return
    folder = output if output.is_dir() else output.parent
    if not folder.is_dir():
        raise click.ClickException(f"there is no folder {folder}; make it first")
    unfinished = folder / f".{material_id}.{kind}.part"
    try:
        with unfinished.open("wb") as file:
            name = connection.run("asr", _write(connection, request, file))
        target = output / safe_name(name, f"{material_id}.{kind}") if output.is_dir() else output
        written = unfinished.stat().st_size
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)  # nothing half written stays
    click.echo(f"{target}  {size(written)}", err=True)


def safe_name(proposed: str, fallback: str) -> str:
    """Return the last part of a proposed file name; a server must not choose the folder."""
    name = PurePath(proposed.replace("\\", "/")).name
    return fallback if name in ("", ".", "..") else name


async def _write(
    connection: Connection, request: live_material_service_pb2.ExportTranscriptRequest, file: BinaryIO
) -> str:
    """Write the bytes as they come and return the name that the server proposes."""
    name = ""
    async with connection.channel("asr") as channel:
        stub = live_material_service_pb2_grpc.LiveMaterialServiceStub(channel)
        async with reading(stub.ExportTranscript(request, timeout=_EXPORT_SECONDS)) as answers:
            async for answer in answers:
                if answer.HasField("info"):
                    name = answer.info.file_name
                else:
                    file.write(answer.chunk)
    file.flush()
    return name
