"""`frontrow drafts`: what waits for an editor, and what editors do to it."""

import click
from frontrow.review.v1 import draft_pb2, draft_service_pb2, draft_service_pb2_grpc

from cli.commands import drafts_edit, drafts_images, drafts_state
from cli.commands.drafts_words import KINDS, kind_argument
from cli.connection import CALL_SECONDS, Connection
from cli.groups import KindGroup
from cli.output import as_dict, clock, console, json_option, print_json, print_table, word

_STATUSES = ["pending", "approved", "rejected"]


@click.group(cls=KindGroup, kinds=KINDS, subcommand_metavar="[KIND | KIND DRAFT_ID | edit …]")
def drafts() -> None:
    """List drafts of one kind, show one with its history, change it.

    Deciding is `frontrow approve` and `frontrow reject`.

    \b
    Examples:
      frontrow drafts runway --status pending
      frontrow drafts street --city copenhagen --year 2026 --json | jq '.[].subtitle'
      frontrow drafts street 7                        with images and history
      frontrow drafts edit street 7 --month 8
      frontrow drafts hide street 7 31 33
      frontrow drafts reopen street 7
    """


for _command in (*drafts_edit.COMMANDS, *drafts_images.COMMANDS, *drafts_state.COMMANDS):
    drafts.add_command(_command)


@drafts.command("list")
@kind_argument
@click.option(
    "--status", "statuses", multiple=True, type=click.Choice(_STATUSES), help="Only these. Repeatable."
)
@click.option("--source", default="", help="Only this source, e.g. vogue.")
@click.option("--city", default="", help="Street snaps of this city, in any spelling.")
@click.option("--year", default=0, help="Street snaps of this year.")
@click.option("--month", default=0, help="Street snaps of this month.")
@click.option("--brand", default="", help="Shows of this brand, in any spelling.")
@click.option("--season", default="", help="Shows of this season, in any spelling.")
@click.option("--deleted", is_flag=True, help="Deleted ones, too.")
@click.option("-n", "--limit", default=20, show_default=True, help="How many, newest first.")
@json_option
@click.pass_obj
def list_drafts(
    connection: Connection,
    /,
    *,
    kind: str,
    statuses: tuple[str, ...],
    deleted: bool,
    limit: int,
    as_json: bool,
    **filters: str | int,
) -> None:
    """List drafts of one kind, newest first; `list` may be left out.

    \b
    Examples:
      frontrow drafts list runway --status pending --brand chanel
      frontrow drafts street --status approved --city 哥本哈根
    """
    query = draft_service_pb2.ListDraftsRequest(
        kind=KINDS[kind],
        statuses=[draft_pb2.DraftStatus.Value(f"DRAFT_STATUS_{name.upper()}") for name in statuses],
        show_deleted=deleted,
        page_size=limit,
        **filters,  # type: ignore[arg-type]  # each has its field's type
    )
    found = connection.run("review", _list(connection, query))
    if as_json:
        print_json([as_dict(draft) for draft in found])
    else:
        _print(found, empty=f"No {kind} drafts of that sort. `frontrow jobs` shows what came in.")


@drafts.command()
@kind_argument
@click.argument("draft_id")
@json_option
@click.pass_obj
def show(connection: Connection, *, kind: str, draft_id: str, as_json: bool) -> None:
    """Show a draft with its images and what happened to it; `show` may be left out.

    \b
    Examples:
      frontrow drafts show street 7
      frontrow drafts street 7 --json | jq '.history[] | {actor, action, changes}'
    """
    answer = connection.run("review", _show(connection, kind, draft_id))
    if as_json:
        print_json(as_dict(answer))
        return
    draft = answer.draft
    console.print(draft_words(draft), markup=False, highlight=False)
    print_table(
        ["id", "shown", "size", "caption", "object key"],
        [
            (
                image.image_id,
                "hidden" if image.hidden else "cover" if image.media_key == draft.cover_key else "yes",
                f"{image.width}×{image.height}",
                image.caption,
                image.media_key,
            )
            for image in draft.images
        ],
        empty="No images.",
    )
    print_table(
        ["when (UTC)", "who", "what", "changes", "reason"],
        [history_row(event) for event in answer.history],
        empty="",
    )


def draft_words(draft: draft_pb2.Draft) -> str:
    """Return a draft's card in some lines."""
    status = word(draft_pb2.DraftStatus, draft.status, "DRAFT_STATUS_")
    lines = [
        f"{draft.title}\n  {draft.subtitle or 'no key yet'}",
        f"  {status}{f' by {draft.decided_by}' if draft.decided_by else ''}"
        f"{', deleted' if draft.deleted else ''}",
    ]
    if draft.reject_reason:
        lines.append(f"  reason: {draft.reject_reason}")
    if draft.official_id:
        lines.append(f"  part of official page {draft.official_id}")
    lines.append(f"  {draft.source or 'no source'} {draft.source_url}")
    return "\n".join(lines)


def history_row(event: draft_pb2.DraftEvent) -> tuple[str, ...]:
    """Return one entry of the history for a table."""
    changes = "\n".join(f"{c.field}: {c.before or '–'} → {c.after or '–'}" for c in event.changes)
    action = word(draft_pb2.DraftAction, event.action, "DRAFT_ACTION_")
    return clock(event.event_time), event.actor or "–", action, changes, event.reason


def _print(found: list[draft_pb2.Draft], *, empty: str) -> None:
    print_table(
        ["id", "status", "title", "key", "source", "images", "created (UTC)", "decided by"],
        [
            (
                draft.draft_id,
                "deleted" if draft.deleted else word(draft_pb2.DraftStatus, draft.status, "DRAFT_STATUS_"),
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


async def _show(connection: Connection, kind: str, draft_id: str) -> draft_service_pb2.GetDraftResponse:
    async with connection.channel("review") as channel:
        stub = draft_service_pb2_grpc.DraftServiceStub(channel)
        request = draft_service_pb2.GetDraftRequest(kind=KINDS[kind], draft_id=draft_id)
        return await stub.GetDraft(request, timeout=CALL_SECONDS)
