"""`frontrow slice`: cut a transcribed recording into titled clips, and an editing draft of them."""

from pathlib import Path
from typing import Any

import click
from frontrow.asr.v1 import (
    clip_pb2,
    editing_draft_pb2,
    video_project_pb2,
    video_project_service_pb2,
    video_project_service_pb2_grpc,
)

from cli.commands.draft import FORMATS, download, draft_root_option
from cli.commands.follow import follow_task
from cli.commands.materials import minutes
from cli.connection import CALL_SECONDS, Connection
from cli.cures import failure
from cli.output import as_dict, console, json_option, print_json, print_table

_PROMPT_HELP = "What you want to see: by its meaning with a language model, else by its words alone."


@click.command("slice")
@click.argument("material_id")
@click.option("--name", default="clips", show_default=True, help="Name of the project.")
@click.option(
    "-k", "--keywords", default="", help="Only where this is said; space is AND, | is OR. Else: by topic."
)
@click.option("-p", "--prompt", default="", help=_PROMPT_HELP)
@click.option(
    "--fast", is_flag=True, help="Copy instead of cutting to the frame: quick, and begins a little early."
)
@click.option("--draft", "draft_format", type=click.Choice(list(FORMATS)), help="Make an editing draft, too.")
@draft_root_option
@click.option(
    "--save",
    type=click.Path(file_okay=False, path_type=Path),
    help="Download clips and draft into this folder.",
)
@json_option
@click.pass_obj
def slice_material(
    connection: Connection,
    /,
    material_id: str,
    *,
    save: Path | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Choose clips by topic, keywords or a prompt, cut them to the frame, and list them.

    \b
    Examples:
      frontrow slice MATERIAL_ID
      frontrow slice MATERIAL_ID -k '防晒 | 口红' --save clips/
      frontrow slice MATERIAL_ID -p 'what she says about lipsticks'
      frontrow slice MATERIAL_ID --draft jianying --save drafts/
    """
    project = connection.run("asr", _create(connection, _request(material_id, **asked)))
    connection.run("task", follow_task(connection, project.slice_task_id, quiet=as_json))
    project, clips = connection.run("asr", _result(connection, project.id, save))
    if project.status == video_project_pb2.VIDEO_PROJECT_STATUS_FAILED:
        raise click.ClickException(failure("asr", project.error_reason, project.error_message))
    if as_json:
        print_json({"video_project": as_dict(project), "clips": [as_dict(clip) for clip in clips]})
        return
    _print(clips)
    if note := prompt_note(project):
        click.echo(note, err=True)
    console.print(f"project {project.id}")
    if project.editing_draft_id:
        console.print(f"draft   {project.editing_draft_id}")
    if save is not None:
        console.print(f"saved in {save}")


def _request(
    material_id: str,
    *,
    name: str,
    keywords: str,
    prompt: str,
    fast: bool,
    draft_format: str | None,
    draft_root: str,
) -> video_project_service_pb2.CreateVideoProjectRequest:
    mode = video_project_pb2.VIDEO_PROJECT_MODE_AI_SLICE
    wanted = editing_draft_pb2.DRAFT_FORMAT_UNSPECIFIED
    if draft_format is not None:
        mode, wanted = video_project_pb2.VIDEO_PROJECT_MODE_AI_SLICE_DRAFT, FORMATS[draft_format]
    return video_project_service_pb2.CreateVideoProjectRequest(
        live_material_id=material_id,
        name=name,
        keywords=keywords,
        prompt=prompt,
        mode=mode,
        cut_mode=video_project_pb2.CUT_MODE_FAST if fast else video_project_pb2.CUT_MODE_EXACT,
        draft_format=wanted,
        draft_root=draft_root,
    )


def prompt_note(project: video_project_pb2.VideoProject) -> str:
    """Return what would let a prompt's meaning count, where its words alone chose the clips; else empty."""
    if project.clips_source != "prompt":
        return ""
    return (
        "chosen by the prompt's words alone. By its meaning: give the slicing worker (`frontrow up`) a\n"
        "  language model that answers: FRONTROW_LLM_BASE_URL=https://host/v1, FRONTROW_LLM_MODEL=NAME,\n"
        "  and FRONTROW_LLM_API_KEY if it needs one"
    )


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
                target = video_project_service_pb2.DownloadMediaRequest(clip_id=clip.id)
                await download(stub, target, save / f"{clip.position:03}.mp4")
            if project.editing_draft_id:
                wanted = video_project_service_pb2.DownloadMediaRequest(
                    editing_draft_id=project.editing_draft_id
                )
                await download(stub, wanted, save)
    return project, clips
