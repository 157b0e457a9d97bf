"""`frontrow draft`: editing drafts of clips, for JianYing, CapCut, Premiere, Resolve and others."""

from pathlib import Path

import click
from frontrow.asr.v1 import editing_draft_pb2, video_project_service_pb2, video_project_service_pb2_grpc

from cli.commands.export import safe_name
from cli.commands.follow import follow_task
from cli.connection import CALL_SECONDS, Connection
from cli.cures import failure
from cli.groups import ShowingGroup
from cli.output import as_dict, clock, json_option, print_json, print_table, size, word
from libs.common.client import reading

_DOWNLOAD_SECONDS = 3600.0
FORMATS = {
    "otio": editing_draft_pb2.DRAFT_FORMAT_OTIO,
    "fcp7": editing_draft_pb2.DRAFT_FORMAT_FCP7_XML,
    "srt": editing_draft_pb2.DRAFT_FORMAT_SRT,
    "jianying": editing_draft_pb2.DRAFT_FORMAT_JIANYING,
}
_NAMES = {number: name for name, number in FORMATS.items()}

draft_root_option = click.option(
    "--draft-root",
    default="",
    help="JianYing: your folder of drafts, for media by whole paths. Else: by the draft's own folder.",
)
save_option = click.option(
    "--save", type=click.Path(file_okay=False, path_type=Path), help="Download it into this folder."
)


@click.group(cls=ShowingGroup)
def draft() -> None:
    """Make editing drafts of a project's clips, and save them.

    A draft is one zip with the clips, their captions and a timeline of both; unpack it where you like.

    \b
    Examples:
      frontrow draft make PROJECT --format jianying --save drafts/
      frontrow draft make PROJECT --clip CLIP --clip CLIP
      frontrow draft list PROJECT
      frontrow draft DRAFT --save drafts/
    """


@draft.command()
@click.argument("project_id", metavar="PROJECT")
@click.option(
    "-f", "--format", "kind", type=click.Choice(list(FORMATS)), default="otio", show_default=True,
    help="For which application: jianying (CapCut, too), fcp7 (Premiere), otio (Resolve), srt.",
)  # fmt: skip
@click.option("--clip", "clip_ids", multiple=True, help="Only this one. Repeatable, in the wanted order.")
@draft_root_option
@save_option
@json_option
@click.pass_obj
def make(
    connection: Connection,
    project_id: str,
    *,
    kind: str,
    clip_ids: tuple[str, ...],
    draft_root: str,
    save: Path | None,
    as_json: bool,
) -> None:
    """Make a draft of a completed project; wait for it."""
    request = video_project_service_pb2.CreateEditingDraftRequest(
        video_project_id=project_id, clip_ids=clip_ids, format=FORMATS[kind], draft_root=draft_root
    )
    made = connection.run("asr", _make(connection, request))
    connection.run("task", follow_task(connection, made.draft_task_id, quiet=as_json))
    _show(connection, made.id, save, as_json=as_json)


@draft.command()
@click.argument("draft_id", metavar="DRAFT")
@save_option
@json_option
@click.pass_obj
def show(connection: Connection, draft_id: str, *, save: Path | None, as_json: bool) -> None:
    """Show a draft; save it."""
    _show(connection, draft_id, save, as_json=as_json)


@draft.command("list")
@click.argument("project_id", metavar="PROJECT", required=False, default="")
@click.option("-n", "--limit", default=20, show_default=True, help="How many, newest first.")
@json_option
@click.pass_obj
def list_drafts(connection: Connection, project_id: str, *, limit: int, as_json: bool) -> None:
    """List drafts, of one project or of all."""
    query = video_project_service_pb2.ListEditingDraftsRequest(video_project_id=project_id, page_size=limit)
    found = connection.run("asr", _list(connection, query))
    if as_json:
        print_json([as_dict(one) for one in found])
    else:
        _print(found, empty="No drafts. `frontrow draft make PROJECT` makes one.")


def _show(connection: Connection, draft_id: str, save: Path | None, *, as_json: bool) -> None:
    found, saved = connection.run("asr", _read(connection, draft_id, save))
    if found.draft_status == editing_draft_pb2.EDITING_DRAFT_STATUS_FAILED:
        raise click.ClickException(failure("asr", found.error_reason, found.error_message))
    if as_json:
        print_json(as_dict(found))
        return
    _print([found], empty="")
    if saved is not None:
        click.echo(f"{saved}  {size(saved.stat().st_size)}", err=True)


def _print(found: list[editing_draft_pb2.EditingDraft], *, empty: str) -> None:
    print_table(
        ["id", "status", "format", "length", "rate", "size", "name", "made (UTC)"],
        [
            (
                one.id,
                word(editing_draft_pb2.EditingDraftStatus, one.draft_status, "EDITING_DRAFT_STATUS_"),
                _NAMES.get(one.format, ""),
                f"{one.duration_ms / 1000:.1f} s" if one.duration_ms else "",
                one.frame_rate,
                size(one.size_bytes) if one.size_bytes else "",
                one.file_name,
                clock(one.complete_time),
            )
            for one in found
        ],
        empty=empty,
    )


async def _make(
    connection: Connection, request: video_project_service_pb2.CreateEditingDraftRequest
) -> editing_draft_pb2.EditingDraft:
    async with connection.channel("asr") as channel:
        stub = video_project_service_pb2_grpc.VideoProjectServiceStub(channel)
        return (await stub.CreateEditingDraft(request, timeout=CALL_SECONDS)).editing_draft


async def _list(
    connection: Connection, query: video_project_service_pb2.ListEditingDraftsRequest
) -> list[editing_draft_pb2.EditingDraft]:
    async with connection.channel("asr") as channel:
        stub = video_project_service_pb2_grpc.VideoProjectServiceStub(channel)
        return list((await stub.ListEditingDrafts(query, timeout=CALL_SECONDS)).editing_drafts)


async def _read(
    connection: Connection, draft_id: str, save: Path | None
) -> tuple[editing_draft_pb2.EditingDraft, Path | None]:
    """Read a draft; download it when there is a folder, and return where it is then."""
    async with connection.channel("asr") as channel:
        stub = video_project_service_pb2_grpc.VideoProjectServiceStub(channel)
        query = video_project_service_pb2.GetEditingDraftRequest(editing_draft_id=draft_id)
        found = (await stub.GetEditingDraft(query, timeout=CALL_SECONDS)).editing_draft
        if save is None or found.draft_status != editing_draft_pb2.EDITING_DRAFT_STATUS_COMPLETED:
            return found, None
        save.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240  (one local folder)
        target = video_project_service_pb2.DownloadMediaRequest(editing_draft_id=draft_id)
        return found, await download(stub, target, save)


async def download(
    stub: "video_project_service_pb2_grpc.VideoProjectServiceAsyncStub",
    request: video_project_service_pb2.DownloadMediaRequest,
    target: Path,
) -> Path:
    """Write one stored file to `target`, or into that folder under the name that the server proposes.

    Nothing half written stays under that name.
    """
    folder = target if target.is_dir() else target.parent  # noqa: ASYNC240  (one local file)
    unfinished = folder / f".{request.WhichOneof('target')}-{id(request):x}.part"
    try:
        with unfinished.open("wb") as file:
            async with reading(stub.DownloadMedia(request, timeout=_DOWNLOAD_SECONDS)) as answers:
                async for answer in answers:
                    if answer.HasField("info") and folder == target:
                        target = folder / safe_name(answer.info.file_name, "download")
                    file.write(answer.chunk)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return target
