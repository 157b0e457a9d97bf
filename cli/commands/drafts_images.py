"""`frontrow drafts hide`, `unhide`, `reorder` and `cover`: the images of a draft."""

from collections.abc import Callable, Sequence

import click
from frontrow.review.v1 import draft_pb2, draft_service_pb2
from google.protobuf.field_mask_pb2 import FieldMask

from cli.commands.drafts_edit import print_changed
from cli.commands.drafts_words import (
    KINDS,
    Stub,
    current,
    etag_option,
    kind_argument,
    with_stub,
)
from cli.connection import CALL_SECONDS, Connection
from cli.output import json_option

_images_argument = click.argument("image_ids", nargs=-1, required=True, metavar="IMAGE_ID...")


@click.command()
@kind_argument
@click.argument("draft_id")
@_images_argument
@etag_option
@json_option
@click.pass_obj
def hide(
    connection: Connection, *, kind: str, draft_id: str, image_ids: tuple[str, ...], etag: str, as_json: bool
) -> None:
    """Leave images out of the official page; they stay in the draft.

    \b
    Examples:
      frontrow drafts street 7              shows the images with their ids
      frontrow drafts hide street 7 31 33
    """
    _change(connection, (kind, draft_id, etag), lambda draft: hidden(draft, image_ids, True), as_json=as_json)


@click.command()
@kind_argument
@click.argument("draft_id")
@_images_argument
@etag_option
@json_option
@click.pass_obj
def unhide(
    connection: Connection, *, kind: str, draft_id: str, image_ids: tuple[str, ...], etag: str, as_json: bool
) -> None:
    """Show hidden images again.

    \b
    Example:
      frontrow drafts unhide street 7 31
    """
    _change(
        connection, (kind, draft_id, etag), lambda draft: hidden(draft, image_ids, False), as_json=as_json
    )


@click.command()
@kind_argument
@click.argument("draft_id")
@_images_argument
@etag_option
@json_option
@click.pass_obj
def reorder(
    connection: Connection, *, kind: str, draft_id: str, image_ids: tuple[str, ...], etag: str, as_json: bool
) -> None:
    """Put images first, in the order named; the others follow as they were.

    \b
    Examples:
      frontrow drafts reorder street 7 33            33 becomes the first
      frontrow drafts reorder street 7 33 31 32
    """
    _change(connection, (kind, draft_id, etag), lambda draft: reordered(draft, image_ids), as_json=as_json)


@click.command()
@kind_argument
@click.argument("draft_id")
@click.argument("image_id", required=False)
@etag_option
@json_option
@click.pass_obj
def cover(
    connection: Connection, *, kind: str, draft_id: str, image_id: str | None, etag: str, as_json: bool
) -> None:
    """Choose the cover; without an image it is the first one again.

    \b
    Examples:
      frontrow drafts cover street 7 33
      frontrow drafts cover street 7
    """
    _change(connection, (kind, draft_id, etag), lambda draft: covered(draft, image_id), as_json=as_json)


def hidden(draft: draft_pb2.Draft, image_ids: Sequence[str], hidden: bool) -> draft_service_pb2.DraftEdit:
    """Return the edit that hides or shows some images. Raises UsageError for one that isn't the draft's."""
    _check(draft, image_ids)
    images = list(draft.images)
    for image in images:
        if image.image_id in image_ids:
            image.hidden = hidden
    return _edit(draft_pb2.Draft(images=images), "images")


def reordered(draft: draft_pb2.Draft, image_ids: Sequence[str]) -> draft_service_pb2.DraftEdit:
    """Return the edit that puts some images first. Raises UsageError for one that isn't the draft's."""
    _check(draft, image_ids)
    wanted = {image_id: place for place, image_id in enumerate(image_ids)}
    images = sorted(draft.images, key=lambda image: wanted.get(image.image_id, len(wanted)))
    return _edit(draft_pb2.Draft(images=images), "images")


def covered(draft: draft_pb2.Draft, image_id: str | None) -> draft_service_pb2.DraftEdit:
    """Return the edit that chooses a cover. Raises UsageError for an image that isn't the draft's."""
    _check(draft, [image_id] if image_id else [])
    key = next((image.media_key for image in draft.images if image.image_id == image_id), "")
    return _edit(draft_pb2.Draft(cover_key=key), "cover_key")


def _check(draft: draft_pb2.Draft, image_ids: Sequence[str]) -> None:
    own = [image.image_id for image in draft.images]
    if strange := [image_id for image_id in image_ids if image_id not in own]:
        raise click.UsageError(f"{', '.join(strange)}: no image of the draft, which has {', '.join(own)}")


def _edit(draft: draft_pb2.Draft, path: str) -> draft_service_pb2.DraftEdit:
    return draft_service_pb2.DraftEdit(draft=draft, update_mask=FieldMask(paths=[path]))


def _change(
    connection: Connection,
    about: tuple[str, str, str],
    edit_of: Callable[[draft_pb2.Draft], draft_service_pb2.DraftEdit],
    *,
    as_json: bool,
) -> None:
    """Read the draft (kind, id, etag), make the edit of exactly what was read, print what came of it."""
    kind, draft_id, etag = about

    async def work(stub: Stub) -> draft_pb2.Draft:
        draft = await current(stub, kind, draft_id)
        request = draft_service_pb2.UpdateDraftRequest(
            kind=KINDS[kind], draft_id=draft_id, etag=etag or draft.etag, edit=edit_of(draft)
        )
        return (await stub.UpdateDraft(request, timeout=CALL_SECONDS)).draft

    print_changed(connection.run("review", with_stub(connection, work)), as_json=as_json)


COMMANDS = (hide, unhide, reorder, cover)
