"""`frontrow reject`: turn a draft down."""

import click
from frontrow.review.v1 import draft_pb2, draft_service_pb2
from rich.markup import escape

from cli.commands.drafts_words import KINDS, Stub, etag_option, kind_argument, with_stub
from cli.connection import CALL_SECONDS, Connection
from cli.output import as_dict, console, json_option, print_json


@click.command()
@kind_argument
@click.argument("draft_id")
@click.option("--reason", default="", help="Why; whoever submits the article again is told.")
@etag_option
@json_option
@click.pass_obj
def reject(
    connection: Connection, *, kind: str, draft_id: str, reason: str, etag: str, as_json: bool
) -> None:
    """Reject a draft. The article stays known: crawled again, it is skipped and this draft is named.

    \b
    Examples:
      frontrow reject street 7 --reason "not our city"
      frontrow drafts reopen street 7      takes it back
    """
    request = draft_service_pb2.RejectDraftRequest(
        kind=KINDS[kind], draft_id=draft_id, reason=reason, etag=etag
    )

    async def work(stub: Stub) -> draft_pb2.Draft:
        return (await stub.RejectDraft(request, timeout=CALL_SECONDS)).draft

    draft = connection.run("review", with_stub(connection, work))
    if as_json:
        print_json(as_dict(draft))
    else:
        console.print(f"[red]rejected[/]: {escape(draft.title)}")
