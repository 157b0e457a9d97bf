"""`frontrow materials`: recordings and their transcripts."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

import click
from frontrow.asr.v1 import (
    live_material_pb2,
    live_material_service_pb2,
    live_material_service_pb2_grpc,
    transcript_pb2,
)
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from cli.commands.follow import follow_task
from cli.connection import CALL_SECONDS, Connection
from cli.cures import cured, failure
from cli.groups import ShowingGroup
from cli.output import (
    as_dict,
    clock,
    console,
    json_option,
    print_advice,
    print_json,
    print_table,
    several,
    size,
    span,
    word,
)
from cli.upload import upload_recording
from libs.common.client import reading


@click.group(cls=ShowingGroup)
def materials() -> None:
    """Add recordings, list them, read their transcripts.

    \b
    Examples:
      frontrow materials add live.mp4 --wait
      frontrow materials list -k '利率 债券 | 股票'
      frontrow materials MATERIAL_ID
      frontrow materials transcript MATERIAL_ID
    """


@materials.command()
@click.argument("recording", metavar="FILE|URL")
@click.option("--name", default="", help="Its name, unlike all others; default: the file's.")
@click.option("--remark", default="", help="A note for the team.")
@click.option("--wait", is_flag=True, help="Stay until it is transcribed, with a progress bar.")
@json_option
@click.pass_obj
def add(connection: Connection, recording: str, *, name: str, remark: str, wait: bool, as_json: bool) -> None:
    """Upload a recording, or have it fetched; it is transcribed and split into topics by itself.

    A broken connection is resumed. Any container that ffmpeg reads will do (mp4, flv, ts, mkv, …).
    An address (http, https) is fetched by the workers; nothing is uploaded from here.

    \b
    Examples:
      frontrow materials add live.mp4
      frontrow materials add live.mp4 --name "Spring sale, day 1" --wait
      frontrow materials add https://cdn.example/live.flv
    """
    request = live_material_service_pb2.CreateLiveMaterialRequest(
        name=name or name_of(recording), remark=remark
    )
    if is_address(recording):
        request.media_url = recording
        material = connection.run("asr", _create(connection, request))
    else:
        file: Path = click.Path(exists=True, dir_okay=False, path_type=Path).convert(recording, None, None)
        material = connection.run("asr", _upload(connection, file, request, quiet=as_json))
    if wait:
        connection.run("task", follow_task(connection, material.asr_task_id, quiet=as_json))
        material = connection.run("asr", _get(connection, material.id))
    if as_json:
        print_json(as_dict(material))
    elif material.asr_status == live_material_pb2.ASR_STATUS_COMPLETED:
        console.print(
            f"[green]transcribed[/]: {material.name}\n  frontrow materials transcript {material.id}"
        )
        console.print(f"  frontrow slice {material.id}")
    elif material.asr_status == live_material_pb2.ASR_STATUS_FAILED:
        raise click.ClickException(failure("asr", material.asr_error_reason, material.asr_error))
    else:
        console.print(
            f"added [bold]{material.name}[/]  id {material.id}\n  frontrow tasks   shows its progress"
        )


@materials.command("list")
@click.option("-k", "--keywords", default="", help="In name or remark; space is AND, | is OR.")
@click.option(
    "-t", "--said", default="", help="Said in a paragraph of the transcript; space is AND, | is OR."
)
@click.option("-n", "--limit", default=20, show_default=True, help="How many, newest first.")
@json_option
@click.pass_obj
def list_materials(connection: Connection, *, keywords: str, said: str, limit: int, as_json: bool) -> None:
    """List recordings, newest first."""
    query = live_material_service_pb2.ListLiveMaterialsRequest(
        keywords=keywords, transcript_keywords=said, page_size=limit
    )
    found = connection.run("asr", _list(connection, query))
    if as_json:
        print_json([as_dict(material) for material in found])
        return
    print_table(
        ["id", "name", "length", "transcription", "%", "created (UTC)", "error"],
        [
            (
                material.id,
                material.name,
                minutes(material.duration_ms) if material.duration_ms else "",
                word(live_material_pb2.AsrStatus, material.asr_status, "ASR_STATUS_"),
                material.asr_progress,
                clock(material.create_time),
                material.asr_error[:100],
            )
            for material in found
        ],
        empty="No recordings. `frontrow materials add FILE` adds one.",
    )
    print_advice(cured("asr", [material.asr_error_reason for material in found]))


@materials.command()
@click.argument("material_id")
@json_option
@click.pass_obj
def show(connection: Connection, material_id: str, as_json: bool) -> None:
    """Show what is known of a recording; `show` may be left out.

    \b
    Examples:
      frontrow materials show MATERIAL_ID
      frontrow materials MATERIAL_ID --json | jq '.audio_tracks[] | select(.transcribed)'
    """
    material = connection.run("asr", _get(connection, material_id))
    if as_json:
        print_json(as_dict(material))
        return
    console.print(material_words(material), markup=False, highlight=False)
    print_advice(cured("asr", [material.asr_error_reason]))


def material_words(material: live_material_pb2.LiveMaterial) -> str:
    """Return a recording's facts in some lines; what isn't known is left out."""
    status = word(live_material_pb2.AsrStatus, material.asr_status, "ASR_STATUS_")
    lines = [material.name, f"  transcription {status}, {material.asr_progress} %"]
    if material.asr_error:
        lines.append(f"  {material.asr_error_reason}: {material.asr_error}")
    if material.remark:
        lines.append(f"  {material.remark}")
    lines.append(f"  {material.media_url or material.file_name}")
    if material.sha1:
        lines.append(f"  {size(material.size_bytes)}, SHA-1 {material.sha1}")
    if material.duration_ms:
        picture = f"{material.width}×{material.height}" if material.width else "no picture"
        lines.append(f"  {minutes(material.duration_ms)}, {picture}")
    if material.missing_seconds:
        lines.append(f"  {span(material.missing_seconds)} of it are missing")
    return "\n".join([*lines, *map(_track_words, material.audio_tracks)])


def _track_words(track: live_material_pb2.AudioTrack) -> str:
    facts = [track.codec, several(track.channels, "channel"), f"{track.sample_rate} Hz", track.language]
    heard = "transcribed" if track.transcribed else ""
    return f"  sound {track.index + 1}: {', '.join(filter(None, [*facts, heard]))}"


@materials.command()
@click.argument("material_id")
@json_option
@click.pass_obj
def transcript(connection: Connection, material_id: str, as_json: bool) -> None:
    """Print topics and paragraphs of a transcribed recording."""
    topics, paragraphs = connection.run("asr", read_transcript(connection, material_id))
    if as_json:
        print_json({"topics": list(map(as_dict, topics)), "paragraphs": list(map(as_dict, paragraphs))})
        return
    starts = {topic.first_utterance: topic for topic in topics}
    for paragraph in paragraphs:
        for index in range(paragraph.first_utterance, paragraph.first_utterance + paragraph.utterance_count):
            if (topic := starts.get(index)) is not None:
                console.print(f"\n[bold]{topic.title}[/]  [dim]{minutes(topic.start_ms)}[/]")
        console.print(f"[dim]{minutes(paragraph.start_ms)}[/]  {paragraph.text}", highlight=False)


def minutes(milliseconds: int) -> str:
    """Return an offset as 1:23:45 or 3:07."""
    total = milliseconds // 1000
    hours, rest = divmod(total, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def is_address(recording: str) -> bool:
    """Tell an address from a file's name."""
    return recording.lower().startswith(("http://", "https://"))


def name_of(recording: str) -> str:
    """Return what a recording is called when nobody says: its file's name without the extension."""
    path = unquote(urlsplit(recording).path) if is_address(recording) else recording
    return Path(path).stem


async def _create(
    connection: Connection, request: live_material_service_pb2.CreateLiveMaterialRequest
) -> live_material_pb2.LiveMaterial:
    async with connection.channel("asr") as channel:
        stub = live_material_service_pb2_grpc.LiveMaterialServiceStub(channel)
        return (await stub.CreateLiveMaterial(request, timeout=CALL_SECONDS)).live_material


async def _upload(
    connection: Connection,
    file: Path,
    request: live_material_service_pb2.CreateLiveMaterialRequest,
    *,
    quiet: bool,
) -> live_material_pb2.LiveMaterial:
    """Upload with a bar, then create the material."""
    bar = Progress(
        TextColumn("upload"),
        BarColumn(bar_width=30),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=console,
        disable=quiet,
    )
    async with connection.channel("asr") as channel:
        with bar:
            task = bar.add_task("upload", total=file.stat().st_size)  # noqa: ASYNC240  (one local file)
            upload_id = await upload_recording(channel, file, lambda sent: bar.update(task, completed=sent))
        request.upload_id = request.request_id = upload_id
        stub = live_material_service_pb2_grpc.LiveMaterialServiceStub(channel)
        return (await stub.CreateLiveMaterial(request, timeout=CALL_SECONDS)).live_material


async def _get(connection: Connection, material_id: str) -> live_material_pb2.LiveMaterial:
    async with connection.channel("asr") as channel:
        stub = live_material_service_pb2_grpc.LiveMaterialServiceStub(channel)
        request = live_material_service_pb2.GetLiveMaterialRequest(live_material_id=material_id)
        return (await stub.GetLiveMaterial(request, timeout=CALL_SECONDS)).live_material


async def _list(
    connection: Connection, query: live_material_service_pb2.ListLiveMaterialsRequest
) -> list[live_material_pb2.LiveMaterial]:
    async with connection.channel("asr") as channel:
        stub = live_material_service_pb2_grpc.LiveMaterialServiceStub(channel)
        return list((await stub.ListLiveMaterials(query, timeout=CALL_SECONDS)).live_materials)


async def read_transcript(
    connection: Connection, material_id: str
) -> tuple[list[transcript_pb2.Topic], list[transcript_pb2.Paragraph]]:
    """Read topics and paragraphs from the stream, without the utterances."""
    topics: list[transcript_pb2.Topic] = []
    paragraphs: list[transcript_pb2.Paragraph] = []
    request = live_material_service_pb2.GetTranscriptRequest(
        live_material_id=material_id, skip_utterances=True
    )
    async with connection.channel("asr") as channel:
        stub = live_material_service_pb2_grpc.LiveMaterialServiceStub(channel)
        async with reading(stub.GetTranscript(request, timeout=CALL_SECONDS)) as answers:
            async for answer in answers:
                topics += answer.topics.topics
                paragraphs += answer.paragraphs.paragraphs
    return topics, paragraphs
