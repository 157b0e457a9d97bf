"""`frontrow drafts`: what waits for an editor."""

import click
from frontrow.review.v1 import draft_pb2, draft_service_pb2, draft_service_pb2_grpc

from cli.connection import CALL_SECONDS, Connection
from cli.output import as_dict, clock, json_option, print_json, print_table, word

KINDS = {
    "runway": draft_pb2.GALLERY_KIND_RUNWAY,
    "street": draft_pb2.GALLERY_KIND_STREET_SNAP,
}
_STATUSES = ["pending", "approved", "rejected"]


@click.command()
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.option(
    "--status", "statuses", multiple=True, type=click.Choice(_STATUSES), help="Only these. Repeatable."
)
@click.option("--source", default="", help="Only this source, e.g. vogue.")
@click.option("--deleted", is_flag=True, help="Deleted ones, too.")
@click.option("-n", "--limit", default=20, show_default=True, help="How many, newest first.")
@json_option
@click.pass_obj
def drafts(
    connection: Connection,
    *,
    kind: str,
    statuses: tuple[str, ...],
    source: str,
    deleted: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List drafts of one kind.

    \b
    Examples:
      frontrow drafts runway --status pending
      frontrow drafts street --json | jq '.[].subtitle'
    """
    query = draft_service_pb2.ListDraftsRequest(
        kind=KINDS[kind],
        statuses=[draft_pb2.DraftStatus.Value(f"DRAFT_STATUS_{name.upper()}") for name in statuses],
        source=source,
        show_deleted=deleted,
        page_size=limit,
    )
    found = connection.run("review", _list(connection, query))
    if as_json:
        print_json([as_dict(draft) for draft in found])
    else:
        _print(found, empty=f"No {kind} drafts of that sort. `frontrow jobs` shows what came in.")


def _print(found: list[draft_pb2.Draft], *, empty: str) -> None:
    print_table(
        ["id", "status", "title", "key", "source", "images", "created (UTC)", "decided by"],
        [
            (
                draft.draft_id,
                word(draft_pb2.DraftStatus, draft.status, "DRAFT_STATUS_"),
                draft.title,
                draft.subtitle,
                draft.source,
                draft.image_count,
                clock(draft.create_time),
                draft.decided_by,
            )
            for draft in found
        ],
        empty=empty,
    )


async def _list(connection: Connection, query: draft_service_pb2.ListDraftsRequest) -> list[draft_pb2.Draft]:
    async with connection.channel("review") as channel:
        stub = draft_service_pb2_grpc.DraftServiceStub(channel)
        return list((await stub.ListDrafts(query, timeout=CALL_SECONDS)).drafts)
