"""`frontrow reject`: turn a draft down."""

import click
from frontrow.review.v1 import draft_pb2, draft_service_pb2, draft_service_pb2_grpc

from cli.commands.drafts import KINDS
from cli.connection import CALL_SECONDS, Connection
from cli.output import as_dict, console, json_option, print_json


@click.command()
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.argument("draft_id")
@click.option("--reason", default="", help="Why; whoever submits the article again is told.")
@json_option
@click.pass_obj
def reject(connection: Connection, kind: str, draft_id: str, reason: str, as_json: bool) -> None:
    """Reject a draft. The article stays known: crawled again, it is skipped and this draft is named.

    \b
    Example:
      frontrow reject street 7 --reason "not our city"
    """
    draft = connection.run("review", _reject(connection, kind, draft_id, reason))
    if as_json:
        print_json(as_dict(draft))
    else:
        console.print(f"[red]rejected[/]: {draft.title}")


async def _reject(connection: Connection, kind: str, draft_id: str, reason: str) -> draft_pb2.Draft:
    async with connection.channel("review") as channel:
        stub = draft_service_pb2_grpc.DraftServiceStub(channel)
        request = draft_service_pb2.RejectDraftRequest(kind=KINDS[kind], draft_id=draft_id, reason=reason)
        return (await stub.RejectDraft(request, timeout=CALL_SECONDS)).draft
