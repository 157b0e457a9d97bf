"""What the commands of editors share: kinds, the options of an edit, and the draft as it is now."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import click
from frontrow.review.v1 import draft_pb2, draft_service_pb2, draft_service_pb2_grpc
from google.protobuf.field_mask_pb2 import FieldMask

from cli.connection import CALL_SECONDS, Connection

KINDS = {
    "runway": draft_pb2.GALLERY_KIND_RUNWAY,
    "street": draft_pb2.GALLERY_KIND_STREET_SNAP,
}
_PATHS = {
    "runway": {"title": "title", **{name: f"runway.{name}" for name in ("brand", "season", "collection")}},
    "street": {"title": "title", **{name: f"street_snap.{name}" for name in ("city", "year", "month")}},
}
kind_argument = click.argument("kind", type=click.Choice(list(KINDS)))
etag_option = click.option(
    "--etag", default="", help="Only if it is still this version, as `--json` shows it; else as it is now."
)
_EDIT_OPTIONS = (
    click.option("--title", help="Another title."),
    click.option("--brand", help="Runway: another brand, in any spelling."),
    click.option("--season", help="Runway: another season, e.g. FW26, in any spelling."),
    click.option("--collection", help="Runway: another collection; empty takes the season's line."),
    click.option("--city", help="Street: another city, in any spelling."),
    click.option("--year", type=click.IntRange(0, 2200), help="Street: another year; 0 is unknown."),
    click.option("--month", type=click.IntRange(0, 12), help="Street: another month; 0 is unknown."),
)
Stub: TypeAlias = "draft_service_pb2_grpc.DraftServiceAsyncStub"


def edit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that name fields of a draft."""
    for option in reversed(_EDIT_OPTIONS):
        command = option(command)
    return command


def edit_of(kind: str, fields: dict[str, Any]) -> draft_service_pb2.DraftEdit | None:
    """Return the edit whose mask names exactly the given fields, None when none is.

    Raises UsageError for fields of the other kind.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    if foreign := [f"--{name}" for name in given if name not in _PATHS[kind]]:
        raise click.UsageError(f"{', '.join(foreign)}: no field of a {kind} draft")
    if not given:
        return None
    draft = draft_pb2.Draft()
    for name, value in given.items():
        group, _, field = _PATHS[kind][name].rpartition(".")
        setattr(getattr(draft, group) if group else draft, field, value)
    paths = [_PATHS[kind][name] for name in given]
    return draft_service_pb2.DraftEdit(draft=draft, update_mask=FieldMask(paths=paths))


async def current(stub: Stub, kind: str, draft_id: str) -> draft_pb2.Draft:
    """Read a draft as it is now."""
    request = draft_service_pb2.GetDraftRequest(kind=KINDS[kind], draft_id=draft_id)
    return (await stub.GetDraft(request, timeout=CALL_SECONDS)).draft


async def with_stub(connection: Connection, work: Callable[[Stub], Awaitable[Any]]) -> Any:
    """Do some calls to the editors' desk over one channel."""
    async with connection.channel("review") as channel:
        return await work(draft_service_pb2_grpc.DraftServiceStub(channel))
