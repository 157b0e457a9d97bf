"""`frontrow approve`: publish a draft."""

from typing import Any

import click
from frontrow.review.v1 import draft_service_pb2
from rich.markup import escape

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
def approve(
    connection: Connection, /, *, kind: str, draft_id: str, etag: str, as_json: bool, **fields: Any
) -> None:
    """Approve a draft as it is now; its images join the official page of its show, or of its city and month.

    Fields that are named are changed first, in the same transaction.

    \b
    Examples:
      frontrow drafts runway --status pending
      frontrow approve runway 12
      frontrow approve street 7 --city Copenhagen --year 2026 --month 8
    """
    edit = edit_of(kind, fields)

    async def work(stub: Stub) -> draft_service_pb2.ApproveDraftResponse:
        """Read the draft for its etag, then approve exactly that state."""
        seen = etag or (await current(stub, kind, draft_id)).etag
        request = draft_service_pb2.ApproveDraftRequest(
            kind=KINDS[kind], draft_id=draft_id, etag=seen, edit=edit
        )
        return await stub.ApproveDraft(request, timeout=CALL_SECONDS)

    answer = connection.run("review", with_stub(connection, work))
    if as_json:
        print_json(as_dict(answer))
    else:
        title = escape(answer.draft.title)
        console.print(f"[green]approved[/]: {title} is in official page {answer.official_id}")
