"""`frontrow drafts edit`: change fields of a draft."""

from typing import Any

import click
from frontrow.review.v1 import draft_pb2, draft_service_pb2

from cli.commands.drafts_words import (
    KINDS,
    Stub,
    current,
    edit_of,
    edit_options,
    etag_option,
    kind_argument,
    with_stub,
)
from cli.connection import CALL_SECONDS, Connection
from cli.output import as_dict, console, json_option, print_json


@click.command()
@kind_argument
@click.argument("draft_id")
@edit_options
@etag_option
@json_option
@click.pass_obj
def edit(
    connection: Connection, /, *, kind: str, draft_id: str, etag: str, as_json: bool, **fields: Any
) -> None:
    """Change the fields that are named, and no others.

    An approved draft moves with its images to the official page of its new key at once.

    \b
    Examples:
      frontrow drafts edit street 7 --month 8
      frontrow drafts edit runway 12 --brand "Acne Studios" --collection ""
      frontrow drafts edit runway 12 --title "Look book" --etag r12-3
    """
    wanted = edit_of(kind, fields)
    if wanted is None:
        raise click.UsageError("name what to change, e.g. --title TEXT; `frontrow drafts edit --help`")
    draft = connection.run("review", update(connection, kind, draft_id, wanted, etag=etag))
    print_changed(draft, as_json=as_json)


async def update(
    connection: Connection, kind: str, draft_id: str, wanted: draft_service_pb2.DraftEdit, *, etag: str
) -> draft_pb2.Draft:
    """Make an edit of the draft as it is now, or of the version that the etag names."""

    async def work(stub: Stub) -> draft_pb2.Draft:
        seen = etag or (await current(stub, kind, draft_id)).etag
        request = draft_service_pb2.UpdateDraftRequest(
            kind=KINDS[kind], draft_id=draft_id, etag=seen, edit=wanted
        )
        return (await stub.UpdateDraft(request, timeout=CALL_SECONDS)).draft

    draft: draft_pb2.Draft = await with_stub(connection, work)
    return draft


def print_changed(draft: draft_pb2.Draft, *, as_json: bool) -> None:
    """Print a draft after a change of its fields or images."""
    if as_json:
        print_json(as_dict(draft))
        return
    page = f", official page {draft.official_id}" if draft.official_id else ""
    console.print(
        f"{draft.title} ({draft.subtitle or 'no key yet'}): {draft.image_count} images shown{page}",
        markup=False,
        highlight=False,
    )


COMMANDS = (edit,)
