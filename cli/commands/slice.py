"""`frontrow slice`: cut a transcribed recording into titled clips."""

from pathlib import Path

import click
from frontrow.asr.v1 import (
    clip_pb2,
    video_project_pb2,
    video_project_service_pb2,
    video_project_service_pb2_grpc,
)

from cli.commands.follow import follow_task
from cli.commands.materials import minutes
from cli.connection import CALL_SECONDS, Connection
from cli.output import as_dict, console, json_option, print_json, print_table
from libs.common.client import reading

_DOWNLOAD_SECONDS = 3600.0


@click.command("slice")
@click.argument("material_id")
@click.option("--name", default="clips", show_default=True, help="Name of the project.")
@click.option(
    "-k", "--keywords", default="", help="Only where this is said; space is AND, | is OR. Else: by topic."
)
@click.option(
    "--save", type=click.Path(file_okay=False, path_type=Path), help="Download the clips into this folder."
)
@json_option
@click.pass_obj
def slice_material(
    connection: Connection, material_id: str, *, name: str, keywords: str, save: Path | None, as_json: bool
) -> None:
    """Choose clips by topic or keywords, cut them to the frame, and list them.

    \b
    Examples:
      frontrow slice MATERIAL_ID
      frontrow slice MATERIAL_ID -k '防晒 | 口红' --save clips/
    """
    request = video_project_service_pb2.CreateVideoProjectRequest(
        live_material_id=material_id,
        name=name,
        keywords=keywords,
        mode=video_project_pb2.VIDEO_PROJECT_MODE_AI_SLICE,
    )
    project = connection.run("asr", _create(connection, request))
    connection.run("task", follow_task(connection, project.slice_task_id, quiet=as_json))
    project, clips = connection.run("asr", _result(connection, project.id, save))
    if project.status == video_project_pb2.VIDEO_PROJECT_STATUS_FAILED:
        raise click.ClickException(f"{project.error_reason}: {project.error_message}")
    if as_json:
        print_json({"video_project": as_dict(project), "clips": [as_dict(clip) for clip in clips]})
        return
    _print(clips)
    if save is not None:
        console.print(f"saved in {save}")


def _print(clips: list[clip_pb2.Clip]) -> None:
    print_table(
        ["#", "title", "from", "to", "size", "topics"],
        [
            (
                clip.position,
                clip.title,
                minutes(clip.start_ms),
                minutes(clip.end_ms),
                f"{clip.size_bytes / 1e6:.1f} MB",
                ", ".join(clip.topics),
            )
            for clip in clips
        ],
        empty="No clips.",
    )


async def _create(
    connection: Connection, request: video_project_service_pb2.CreateVideoProjectRequest
) -> video_project_pb2.VideoProject:
    async with connection.channel("asr") as channel:
        stub = video_project_service_pb2_grpc.VideoProjectServiceStub(channel)
        return (await stub.CreateVideoProject(request, timeout=CALL_SECONDS)).video_project


async def _result(
    connection: Connection, project_id: str, save: Path | None
) -> tuple[video_project_pb2.VideoProject, list[clip_pb2.Clip]]:
    """Read the project and its clips; download them when there is a folder."""
    async with connection.channel("asr") as channel:
        stub = video_project_service_pb2_grpc.VideoProjectServiceStub(channel)
        asked = video_project_service_pb2.GetVideoProjectRequest(video_project_id=project_id)
        project = (await stub.GetVideoProject(asked, timeout=CALL_SECONDS)).video_project
        query = video_project_service_pb2.ListClipsRequest(video_project_id=project_id, page_size=500)
        clips = list((await stub.ListClips(query, timeout=CALL_SECONDS)).clips)
        if save is not None:
            save.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240  (one local folder)
            for clip in clips:
                await download_clip(stub, clip.id, save / f"{clip.position:03}.mp4")
    return project, clips


async def download_clip(
    stub: "video_project_service_pb2_grpc.VideoProjectServiceAsyncStub", clip_id: str, target: Path
) -> None:
    """Write one clip's file."""
    request = video_project_service_pb2.DownloadMediaRequest(clip_id=clip_id)
    with target.open("wb") as file:
        async with reading(stub.DownloadMedia(request, timeout=_DOWNLOAD_SECONDS)) as answers:
            async for answer in answers:
                file.write(answer.chunk)
