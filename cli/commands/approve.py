"""`frontrow approve`: publish a draft."""

import click
from frontrow.review.v1 import draft_service_pb2, draft_service_pb2_grpc

from cli.commands.drafts import KINDS
from cli.connection import CALL_SECONDS, Connection
from cli.output import as_dict, console, json_option, print_json


@click.command()
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.argument("draft_id")
@json_option
@click.pass_obj
def approve(connection: Connection, kind: str, draft_id: str, as_json: bool) -> None:
    """Approve a draft as it is now; its images join the official page of its show, or of its city and month.

    \b
    Examples:
      frontrow drafts runway --status pending
      frontrow approve runway 12
    """
    answer = connection.run("review", _approve(connection, kind, draft_id))
    if as_json:
        print_json(as_dict(answer))
    else:
        console.print(f"[green]approved[/]: {answer.draft.title} is in official page {answer.official_id}")


async def _approve(
    connection: Connection, kind: str, draft_id: str
) -> draft_service_pb2.ApproveDraftResponse:
    """Read the draft for its etag, then approve exactly that state."""
    async with connection.channel("review") as channel:
        stub = draft_service_pb2_grpc.DraftServiceStub(channel)
        asked = draft_service_pb2.GetDraftRequest(kind=KINDS[kind], draft_id=draft_id)
        draft = (await stub.GetDraft(asked, timeout=CALL_SECONDS)).draft
        request = draft_service_pb2.ApproveDraftRequest(kind=KINDS[kind], draft_id=draft_id, etag=draft.etag)
        return await stub.ApproveDraft(request, timeout=CALL_SECONDS)
