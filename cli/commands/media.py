"""`frontrow media`: the care of stored images."""

import click
from frontrow.review.v1 import media_service_pb2, media_service_pb2_grpc

from cli.connection import Connection
from cli.output import as_dict, console, json_option, print_json, print_table, several, size, word

_PAGE = 100
_PAGE_SECONDS = 120.0
_CLEANUP_SECONDS = 3600.0


@click.group()
def media() -> None:
    """Check stored images against their records; remove those that nothing shows.

    \b
    Examples:
      frontrow media check
      frontrow media cleanup             what would go
      frontrow media cleanup --apply     let it go
    """


@media.command()
@json_option
@click.pass_context
def check(ctx: click.Context, as_json: bool) -> None:
    """Read every stored image again and compare its length and SHA-256. Writes nothing.

    Fails when something is damaged, so that a nightly job notices.

    \b
    Example:
      frontrow media check --json
    """
    connection: Connection = ctx.obj
    found = connection.run("review", _verify(connection))
    if as_json:
        print_json({"checked_count": found.checked_count, "damaged": list(map(as_dict, found.damaged))})
    elif not found.damaged:
        console.print(f"{several(found.checked_count, 'image')} compared, all as stored.", highlight=False)
    else:
        console.print(
            f"{len(found.damaged)} of {several(found.checked_count, 'image')} damaged: restore them from a "
            "copy of the object store.",
            style="red",
            highlight=False,
        )
        print_table(
            ["object key", "damage"],
            [
                (item.key, word(media_service_pb2.MediaDamage, item.damage, "MEDIA_DAMAGE_"))
                for item in found.damaged
            ],
            empty="",
        )
    if found.damaged:
        ctx.exit(1)


@media.command()
@click.option("--apply", is_flag=True, help="Do it; without this it only reports.")
@json_option
@click.pass_obj
def cleanup(connection: Connection, *, apply: bool, as_json: bool) -> None:
    """Remove images that nothing refers to, in two passes a day apart.

    The first pass marks them, a later one deletes what is still marked and unused. Only --apply writes.

    \b
    Examples:
      frontrow media cleanup
      frontrow media cleanup --apply
    """
    report = connection.run("review", _clean_up(connection, apply))
    if as_json:
        print_json(as_dict(report))
        return
    console.print(cleanup_words(report), markup=False, highlight=False)
    for key in report.deleted_keys:
        console.print(f"  {key}", markup=False, highlight=False)


def cleanup_words(report: media_service_pb2.CleanUpMediaResponse) -> str:
    """Return a report in words, and what to do next."""
    was = "" if report.applied else "would be "
    lines = [
        f"Of {several(report.total_count, 'image')}, {report.marked_count} {was}marked as unused and "
        f"{report.deleted_count} {was}deleted ({size(report.deleted_bytes)}, thumbnails included)."
    ]
    if not report.applied:
        lines.append("Nothing was written; --apply does it.")
    elif report.marked_count:
        lines.append("Marked ones go at the first clean-up after a day, unless something uses them again.")
    return "\n".join(lines)


async def _verify(connection: Connection) -> media_service_pb2.VerifyMediaResponse:
    """Compare page by page and return the sum."""
    total = media_service_pb2.VerifyMediaResponse()
    request = media_service_pb2.VerifyMediaRequest(page_size=_PAGE)
    async with connection.channel("review") as channel:
        stub = media_service_pb2_grpc.MediaServiceStub(channel)
        while True:
            page = await stub.VerifyMedia(request, timeout=_PAGE_SECONDS)
            total.checked_count += page.checked_count
            total.damaged.extend(page.damaged)
            if not page.next_page_token:
                return total
            request.page_token = page.next_page_token


async def _clean_up(connection: Connection, apply: bool) -> media_service_pb2.CleanUpMediaResponse:
    async with connection.channel("review") as channel:
        stub = media_service_pb2_grpc.MediaServiceStub(channel)
        request = media_service_pb2.CleanUpMediaRequest(apply=apply)
        return await stub.CleanUpMedia(request, timeout=_CLEANUP_SECONDS)
