"""`frontrow catalogue`: the official pages, as the public sees them."""

from collections.abc import Sequence
from typing import TypeAlias

import click
from frontrow.review.v1 import catalog_pb2, catalog_service_pb2, catalog_service_pb2_grpc

from cli.commands.drafts_words import KINDS, kind_argument
from cli.connection import CALL_SECONDS, Connection
from cli.groups import KindGroup
from cli.output import as_dict, clock, console, json_option, print_json, print_table
from cli.paging import pages

_MOST = 1_000
Page: TypeAlias = catalog_pb2.Runway | catalog_pb2.StreetSnap


@click.group(cls=KindGroup, kinds=KINDS, subcommand_metavar="[KIND | KIND PAGE_ID | brands]")
def catalogue() -> None:
    """See the official pages: runway shows and street-snap albums, as the public sees them.

    A page is there while an approved draft is part of it; its images are those of all of them.

    \b
    Examples:
      frontrow catalogue runway --brand chanel
      frontrow catalogue street --json | jq '.[].title'
      frontrow catalogue street 7                     with its images
      frontrow catalogue brands
    """


@catalogue.command("list")
@kind_argument
@click.option("--brand", default="", help="Shows of this brand, in any spelling.")
@click.option("--season", default="", help="Shows of this season, in any spelling.")
@click.option(
    "-n", "--limit", type=click.IntRange(1), default=20, show_default=True, help="How many, newest first."
)
@json_option
@click.pass_obj
def list_pages(
    connection: Connection, *, kind: str, brand: str, season: str, limit: int, as_json: bool
) -> None:
    """List official pages of one kind, newest first; `list` may be left out.

    \b
    Examples:
      frontrow catalogue list runway --brand 香奈儿 --season FW26
      frontrow catalogue list street
    """
    if kind == "street" and (brand or season):
        raise click.UsageError("--brand, --season: no field of a street-snap album")
    found = connection.run("review", _list(connection, kind, brand, season, limit=limit))
    if as_json:
        print_json([as_dict(page) for page in found])
    else:
        _print(found, empty=f"No {kind} page is public: `frontrow approve {kind} DRAFT_ID` makes one.")


@catalogue.command()
@kind_argument
@click.argument("page_id")
@json_option
@click.pass_obj
def show(connection: Connection, *, kind: str, page_id: str, as_json: bool) -> None:
    """Show an official page with its images; `show` may be left out.

    \b
    Examples:
      frontrow catalogue show runway 3
      frontrow catalogue street 7 --json | jq -r '.images[].media_key'
    """
    page = connection.run("review", _show(connection, kind, page_id))
    if as_json:
        print_json(as_dict(page))
        return
    _print([page], empty="")
    print_table(
        ["object key", "size", "type", "caption"],
        [
            (
                image.media_key,
                f"{image.width}×{image.height}" if image.width else "",
                image.content_type,
                image.caption,
            )
            for image in page.images
        ],
        empty="No images.",
    )


@catalogue.command()
@json_option
@click.pass_obj
def brands(connection: Connection, as_json: bool) -> None:
    """List the brands that have public shows; `frontrow brands list` has all of them.

    \b
    Example:
      frontrow catalogue brands
    """
    found = connection.run("review", _brands(connection))
    if as_json:
        print_json([as_dict(brand) for brand in found])
        return
    print_table(
        ["id", "brand", "shows"],
        [(brand.brand_id, brand.name, brand.runway_count) for brand in found],
        empty="No show is public.",
    )


def page_row(page: Page) -> tuple[object, ...]:
    """Return a page's line of the table of its kind."""
    if isinstance(page, catalog_pb2.StreetSnap):
        return page.street_snap_id, page.title, page.image_count, page.cover_key
    key = (page.brand, page.season, page.collection)
    return page.runway_id, page.title, *key, page.image_count, clock(page.create_time)


def _print(found: Sequence[Page], *, empty: str) -> None:
    if not found:
        console.print(empty, markup=False, highlight=False)
    elif isinstance(found[0], catalog_pb2.StreetSnap):
        print_table(["id", "title", "images", "object key"], map(page_row, found), empty="")
    else:
        columns = ["id", "title", "brand", "season", "collection", "images", "public since (UTC)"]
        print_table(columns, map(page_row, found), empty="")


async def _list(connection: Connection, kind: str, brand: str, season: str, *, limit: int) -> list[Page]:
    """Read pages of the list until there are `limit`, or no more."""
    found: list[Page] = []
    size = min(limit, _MOST)
    async with connection.channel("review") as channel:
        stub = catalog_service_pb2_grpc.CatalogServiceStub(channel)
        if kind == "runway":
            shows = catalog_service_pb2.ListRunwaysRequest(brand=brand, season=season, page_size=size)
            async for runways in pages(stub.ListRunways, shows):
                found += runways.runways
                if len(found) >= limit:
                    break
        else:
            albums = catalog_service_pb2.ListStreetSnapsRequest(page_size=size)
            async for snaps in pages(stub.ListStreetSnaps, albums):
                found += snaps.street_snaps
                if len(found) >= limit:
                    break
    return found[:limit]


async def _show(connection: Connection, kind: str, page_id: str) -> Page:
    """Read a page with all its images, however many calls they take."""
    async with connection.channel("review") as channel:
        stub = catalog_service_pb2_grpc.CatalogServiceStub(channel)
        page, token = await _part(stub, kind, page_id, "")
        while token:
            more, token = await _part(stub, kind, page_id, token)
            page.images.extend(more.images)
    return page


async def _part(
    stub: "catalog_service_pb2_grpc.CatalogServiceAsyncStub", kind: str, page_id: str, token: str
) -> tuple[Page, str]:
    """Return a page with some of its images, and the token of those that follow; empty: none do."""
    if kind == "runway":
        of_show = catalog_service_pb2.GetRunwayRequest(runway_id=page_id, images_page_token=token)
        show = await stub.GetRunway(of_show, timeout=CALL_SECONDS)
        return show.runway, show.next_images_page_token
    of_album = catalog_service_pb2.GetStreetSnapRequest(street_snap_id=page_id, images_page_token=token)
    album = await stub.GetStreetSnap(of_album, timeout=CALL_SECONDS)
    return album.street_snap, album.next_images_page_token


async def _brands(connection: Connection) -> list[catalog_service_pb2.CatalogBrand]:
    async with connection.channel("review") as channel:
        stub = catalog_service_pb2_grpc.CatalogServiceStub(channel)
        request = catalog_service_pb2.ListBrandsRequest(page_size=_MOST)
        return [brand async for page in pages(stub.ListBrands, request) for brand in page.brands]
