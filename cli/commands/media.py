"""`frontrow media`: the care of stored images."""

import click
from frontrow.review.v1 import media_service_pb2, media_service_pb2_grpc

from cli.connection import CALL_SECONDS, Connection
from cli.output import as_dict, console, json_option, print_json, print_table, several, size, word
from cli.paging import pages

_PAGE = 100
_PAGE_SECONDS = 120.0
_CLEANUP_SECONDS = 120.0
_SHOWN_KEYS = 100


@click.group()
def media() -> None:
    """Check stored images against their records; find similar ones; remove those that nothing shows.

    \b
    Examples:
      frontrow media check
      frontrow media similar media/3f/3f….jpg
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


@media.command()
@click.argument("media_key", metavar="OBJECT_KEY")
@click.option(
    "--max-distance",
    type=click.IntRange(1, 6),
    default=6,
    show_default=True,
    help="Of 64 bits, how many may differ.",
)
@json_option
@click.pass_obj
def similar(connection: Connection, *, media_key: str, max_distance: int, as_json: bool) -> None:
    """Find images that look like one, nearest first: another site's copy of a picture, mostly.

    \b
    Examples:
      frontrow drafts street 7                             shows the images with their object keys
      frontrow media similar media/3f/3f….jpg
      frontrow media dismiss media/3f/3f….jpg media/a0/a0….jpg     not the same
    """
    request = media_service_pb2.FindSimilarRequest(media_key=media_key, max_distance=max_distance)
    found = connection.run("review", _similar(connection, request))
    if as_json:
        print_json([as_dict(image) for image in found])
        return
    print_table(
        ["object key", "bits that differ"],
        [(image.key, image.distance) for image in found],
        empty="Nothing looks like it.",
    )


@media.command()
@click.argument("media_key", metavar="OBJECT_KEY")
@click.argument("other_key", metavar="OTHER_KEY")
@json_option
@click.pass_obj
def dismiss(connection: Connection, *, media_key: str, other_key: str, as_json: bool) -> None:
    """Remember that two images aren't the same: neither is suggested for the other any more.

    \b
    Example:
      frontrow media dismiss media/3f/3f….jpg media/a0/a0….jpg
    """
    request = media_service_pb2.DismissSimilarRequest(media_key=media_key, other_key=other_key)
    connection.run("review", _dismiss(connection, request))
    if as_json:
        print_json({"dismissed": [media_key, other_key]})
    else:
        console.print("remembered: not the same", highlight=False)


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
        async for page in pages(stub.VerifyMedia, request, seconds=_PAGE_SECONDS):
            total.checked_count += page.checked_count
            total.damaged.extend(page.damaged)
    return total


async def _clean_up(connection: Connection, apply: bool) -> media_service_pb2.CleanUpMediaResponse:
    """Call as long as there is more to do and return the sum."""
    total = media_service_pb2.CleanUpMediaResponse(applied=apply)
    request = media_service_pb2.CleanUpMediaRequest(apply=apply)
    async with connection.channel("review") as channel:
        stub = media_service_pb2_grpc.MediaServiceStub(channel)
        async for part in pages(stub.CleanUpMedia, request, seconds=_CLEANUP_SECONDS):
            total.total_count = part.total_count
            total.marked_count += part.marked_count
            total.deleted_count += part.deleted_count
            total.deleted_bytes += part.deleted_bytes
            total.deleted_keys.extend(part.deleted_keys[: _SHOWN_KEYS - len(total.deleted_keys)])
    return total


async def _similar(
    connection: Connection, request: media_service_pb2.FindSimilarRequest
) -> list[media_service_pb2.SimilarMedia]:
    async with connection.channel("review") as channel:
        stub = media_service_pb2_grpc.MediaServiceStub(channel)
        return list((await stub.FindSimilar(request, timeout=CALL_SECONDS)).similar)


async def _dismiss(connection: Connection, request: media_service_pb2.DismissSimilarRequest) -> None:
    async with connection.channel("review") as channel:
        stub = media_service_pb2_grpc.MediaServiceStub(channel)
        await stub.DismissSimilar(request, timeout=CALL_SECONDS)
