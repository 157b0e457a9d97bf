"""`frontrow drafts reopen`, `delete`, `undelete` and `purge`: what isn't a decision."""

from collections.abc import Awaitable, Callable
from typing import Any

import click
from frontrow.review.v1 import draft_pb2, draft_service_pb2

from cli.commands.drafts_words import KINDS, Stub, current, etag_option, kind_argument, with_stub
from cli.connection import CALL_SECONDS, Connection
from cli.output import as_dict, console, json_option, print_json


@click.command()
@kind_argument
@click.argument("draft_id")
@etag_option
@json_option
@click.pass_obj
def reopen(connection: Connection, *, kind: str, draft_id: str, etag: str, as_json: bool) -> None:
    """Take a decision back: pending again. An approved draft's images leave its official page.

    \b
    Example: somebody clicked reject
      frontrow drafts reopen street 7
    """
    request = draft_service_pb2.ReopenDraftRequest(kind=KINDS[kind], draft_id=draft_id, etag=etag)
    _change(
        connection,
        lambda stub: stub.ReopenDraft(request, timeout=CALL_SECONDS),
        "pending again",
        as_json=as_json,
    )


@click.command()
@kind_argument
@click.argument("draft_id")
@etag_option
@json_option
@click.pass_obj
def delete(connection: Connection, *, kind: str, draft_id: str, etag: str, as_json: bool) -> None:
    """Delete a draft, softly. Its images leave the official page; its article stays known.

    \b
    Examples:
      frontrow drafts delete street 7
      frontrow drafts street --deleted      lists it all the same
    """
    request = draft_service_pb2.DeleteDraftRequest(kind=KINDS[kind], draft_id=draft_id, etag=etag)
    _change(
        connection, lambda stub: stub.DeleteDraft(request, timeout=CALL_SECONDS), "deleted", as_json=as_json
    )


@click.command()
@kind_argument
@click.argument("draft_id")
@etag_option
@json_option
@click.pass_obj
def undelete(connection: Connection, *, kind: str, draft_id: str, etag: str, as_json: bool) -> None:
    """Take a deletion back; an approved draft's images return.

    \b
    Example:
      frontrow drafts undelete street 7
    """
    request = draft_service_pb2.UndeleteDraftRequest(kind=KINDS[kind], draft_id=draft_id, etag=etag)
    _change(
        connection,
        lambda stub: stub.UndeleteDraft(request, timeout=CALL_SECONDS),
        "there again",
        as_json=as_json,
    )


@click.command()
@kind_argument
@click.argument("draft_id")
@click.option("--reason", required=True, help="Why; kept in the history, which outlives the draft.")
@click.option("--apply", is_flag=True, help="Do it; without this it only says what would go.")
@etag_option
@json_option
@click.pass_obj
def purge(
    connection: Connection, *, kind: str, draft_id: str, reason: str, apply: bool, etag: str, as_json: bool
) -> None:
    """Remove a draft for good, so that its article may come in once more. It can't be undone.

    \b
    Examples:
      frontrow drafts purge street 7 --reason "rejected by mistake, the site mended its pictures"
      frontrow drafts purge street 7 --reason "…" --apply
    """

    async def work(stub: Stub) -> draft_pb2.Draft:
        draft = await current(stub, kind, draft_id)
        if apply:
            request = draft_service_pb2.PurgeDraftRequest(
                kind=KINDS[kind], draft_id=draft_id, etag=etag or draft.etag, reason=reason
            )
            await stub.PurgeDraft(request, timeout=CALL_SECONDS)
        return draft

    draft = connection.run("review", with_stub(connection, work))
    if as_json:
        print_json({"purged": apply, "draft": as_dict(draft)})
        return
    console.print(purge_words(draft, purged=apply), markup=False, highlight=False)


def purge_words(draft: draft_pb2.Draft, *, purged: bool) -> str:
    """Return what goes, or went, and what that means."""
    article = f"{draft.source or 'no source'} {draft.source_url or '(without an address)'}"
    if purged:
        return f"gone for good: {draft.title}\n  {article} may come in again"
    page = f" and its images from official page {draft.official_id}" if draft.official_id else ""
    return (
        f"would go for good: {draft.title} ({draft.subtitle or 'no key'}, {len(draft.images)} images){page}\n"
        f"  {article} could come in again\nNothing was written; --apply does it."
    )


def _change(
    connection: Connection, call: Callable[[Stub], Awaitable[Any]], what: str, *, as_json: bool
) -> None:
    """Make a call that answers with the draft, and print that."""
    draft: draft_pb2.Draft = connection.run("review", with_stub(connection, call)).draft
    if as_json:
        print_json(as_dict(draft))
    else:
        console.print(f"{what}: {draft.title}", markup=False, highlight=False)


COMMANDS = (reopen, delete, undelete, purge)
