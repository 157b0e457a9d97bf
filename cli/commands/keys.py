"""`frontrow keys`: the brands, cities and seasons that pages are filed under, and their spellings."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import click
from frontrow.review.v1 import key_pb2, key_service_pb2, key_service_pb2_grpc

from cli.connection import CALL_SECONDS, Connection
from cli.output import as_dict, console, json_option, print_json, print_table
from cli.paging import pages

_TYPES = {
    "brand": key_service_pb2.KEY_TYPE_BRAND,
    "city": key_service_pb2.KEY_TYPE_CITY,
    "season": key_service_pb2.KEY_TYPE_SEASON,
}
_PAGE = 500
Name = key_pb2.Brand | key_pb2.City | key_pb2.Season
Stub: TypeAlias = "key_service_pb2_grpc.KeyServiceAsyncStub"
_vocabulary = click.argument("vocabulary", type=click.Choice(list(_TYPES)))


@click.group()
def keys() -> None:
    """List brands, cities and seasons; add names and spellings; merge two that are the same.

    Ids are numbers, as the list shows them; a season's is its code, like FW26.

    \b
    Examples:
      frontrow keys list city
      frontrow keys create brand "Acne Studios" --alias ACNE
      frontrow keys alias city 5 "Köbenhavn"
      frontrow keys merge city 131 5             what that would concern
      frontrow keys merge city 131 5 --apply     131 is 5 from now on
      frontrow keys unmerge city 131 --apply     exactly as before
    """


@keys.command("list")
@_vocabulary
@json_option
@click.pass_obj
def list_keys(connection: Connection, vocabulary: str, as_json: bool) -> None:
    """List all names of a vocabulary with their other spellings, merged ones too.

    \b
    Examples:
      frontrow keys list season
      frontrow keys list city --json | jq '.[] | select(.known | not)'     what drafts brought
    """
    found = connection.run("review", _with_stub(connection, lambda stub: every_name(stub, vocabulary)))
    if as_json:
        print_json([as_dict(name) for name in found])
        return
    print_table(
        ["id", vocabulary, "also", "stands for"],
        [name_row(name) for name in found],
        empty=f"None yet. `frontrow keys create {vocabulary} NAME` adds one.",
    )


@keys.command()
@_vocabulary
@click.argument("name")
@click.option("--alias", "aliases", multiple=True, help="Another spelling. Repeatable.")
@click.option("--code", default="", help="A season's code, e.g. FW26; else its name.")
@json_option
@click.pass_obj
def create(
    connection: Connection,
    *,
    vocabulary: str,
    name: str,
    aliases: tuple[str, ...],
    code: str,
    as_json: bool,
) -> None:
    """Add a name with its spellings.

    \b
    Examples:
      frontrow keys create city "Hong Kong" --alias 香港
      frontrow keys create season "High Summer 2026" --code HS26 --alias "High Summer 26"
    """
    if code and vocabulary != "season":
        raise click.UsageError("--code is of seasons; brands and cities get a number")

    async def work(stub: Stub) -> Name:
        return await create_name(stub, vocabulary, (code or name, name), aliases)

    _print(connection.run("review", _with_stub(connection, work)), vocabulary, as_json=as_json)


@keys.command()
@_vocabulary
@click.argument("key_id", metavar="ID")
@click.argument("spelling")
@click.option("--line", default="", help="Season: the line that the spelling names, e.g. Couture.")
@json_option
@click.pass_obj
def alias(
    connection: Connection, *, vocabulary: str, key_id: str, spelling: str, line: str, as_json: bool
) -> None:
    """Give a name another spelling. Can be said again.

    \b
    Examples:
      frontrow keys alias brand 12 "ACNE"
      frontrow keys alias season FW26 "Herbst 26 Couture" --line Couture
    """
    if line and vocabulary != "season":
        raise click.UsageError("--line is of seasons: no brand or city names one")

    async def work(stub: Stub) -> Name:
        return await add_alias(stub, vocabulary, key_id, (spelling, line))

    _print(connection.run("review", _with_stub(connection, work)), vocabulary, as_json=as_json)


@keys.command()
@_vocabulary
@click.argument("source_id", metavar="ID")
@click.argument("target_id", metavar="SAME_AS")
@click.option("--apply", is_flag=True, help="Do it; without this it only reports.")
@json_option
@click.pass_obj
def merge(
    connection: Connection, *, vocabulary: str, source_id: str, target_id: str, apply: bool, as_json: bool
) -> None:
    """Say that one name means another: the pages of both become those of the second. Drafts keep their own.

    \b
    Examples:
      frontrow keys merge city 131 5
      frontrow keys merge city 131 5 --apply
    """
    request = key_service_pb2.MergeKeysRequest(
        key_type=_TYPES[vocabulary], source_id=source_id, target_id=target_id, apply=apply
    )

    async def work(stub: Stub) -> key_service_pb2.MergeKeysResponse:
        return await stub.MergeKeys(request, timeout=CALL_SECONDS)

    answer = connection.run("review", _with_stub(connection, work))
    undo = f"`frontrow keys unmerge {vocabulary} {source_id}` undoes it exactly."
    _print_report(answer, undo, as_json=as_json)


@keys.command()
@_vocabulary
@click.argument("key_id", metavar="ID")
@click.option("--apply", is_flag=True, help="Do it; without this it only reports.")
@json_option
@click.pass_obj
def unmerge(connection: Connection, *, vocabulary: str, key_id: str, apply: bool, as_json: bool) -> None:
    """Undo a merge exactly: the name stands for itself again.

    \b
    Examples:
      frontrow keys unmerge city 131
      frontrow keys unmerge city 131 --apply
    """
    request = key_service_pb2.UnmergeKeysRequest(key_type=_TYPES[vocabulary], id=key_id, apply=apply)

    async def work(stub: Stub) -> key_service_pb2.UnmergeKeysResponse:
        return await stub.UnmergeKeys(request, timeout=CALL_SECONDS)

    _print_report(connection.run("review", _with_stub(connection, work)), "", as_json=as_json)


def report_words(report: key_service_pb2.MergeReport) -> str:
    """Return what a merge or its undo concerns, in words."""
    return (
        f"Drafts concerned: {report.draft_count}, of them published: {report.shown_draft_count}.\n"
        f"Official pages that gain images: {report.gaining_official_count}; "
        f"that lose their last ones and are hidden: {report.hidden_official_count}."
    )


def name_row(name: Name) -> tuple[str, str, str, str]:
    """Return a name for a table: id, name, spellings, where it was merged into."""
    if isinstance(name, key_pb2.Season):
        spellings = ", ".join(f"{a.alias} ({a.line})" if a.line else a.alias for a in name.aliases)
        return name.season_code, _flagged(name.name, name.known), spellings, name.canonical_code
    spellings = ", ".join(name.aliases)
    if isinstance(name, key_pb2.City):
        return name.city_id, _flagged(name.name, name.known), spellings, name.canonical_id
    return name.brand_id, name.name, spellings, name.canonical_id


def _flagged(name: str, known: bool) -> str:
    return name if known else f"{name} (as a draft wrote it)"


def _print(name: Name, vocabulary: str, *, as_json: bool) -> None:
    if as_json:
        print_json(as_dict(name))
        return
    key_id, text, spellings, _ = name_row(name)
    also = f", also {spellings}" if spellings else ""
    console.print(f"{vocabulary} {key_id}: {text}{also}", markup=False, highlight=False)


def _print_report(answer: Any, undo: str, *, as_json: bool) -> None:
    if as_json:
        print_json(as_dict(answer))
        return
    further = undo if answer.applied else "Nothing was written; --apply does it."
    words = report_words(answer.report)
    console.print("\n".join(filter(None, (words, further))), markup=False, highlight=False)


async def _with_stub(connection: Connection, work: Callable[[Stub], Awaitable[Any]]) -> Any:
    async with connection.channel("review") as channel:
        return await work(key_service_pb2_grpc.KeyServiceStub(channel))


async def every_name(stub: Stub, vocabulary: str) -> list[Name]:
    """Read all pages of a vocabulary."""
    if vocabulary == "brand":
        brands = key_service_pb2.ListBrandKeysRequest(page_size=_PAGE)
        return [name async for page in pages(stub.ListBrandKeys, brands) for name in page.brands]
    if vocabulary == "city":
        cities = key_service_pb2.ListCitiesRequest(page_size=_PAGE)
        return [name async for page in pages(stub.ListCities, cities) for name in page.cities]
    seasons = key_service_pb2.ListSeasonsRequest(page_size=_PAGE)
    return [name async for page in pages(stub.ListSeasons, seasons) for name in page.seasons]


async def create_name(stub: Stub, vocabulary: str, named: tuple[str, str], aliases: tuple[str, ...]) -> Name:
    """Create a name (code and name; the code is of seasons) with its spellings."""
    code, name = named
    if vocabulary == "brand":
        brand = key_service_pb2.CreateBrandRequest(name=name, aliases=aliases)
        return (await stub.CreateBrand(brand, timeout=CALL_SECONDS)).brand
    if vocabulary == "city":
        city = key_service_pb2.CreateCityRequest(name=name, aliases=aliases)
        return (await stub.CreateCity(city, timeout=CALL_SECONDS)).city
    request = key_service_pb2.CreateSeasonRequest(season_code=code, name=name)
    season: Name = (await stub.CreateSeason(request, timeout=CALL_SECONDS)).season
    for spelling in aliases:
        season = await add_alias(stub, vocabulary, code, (spelling, ""))
    return season


async def add_alias(stub: Stub, vocabulary: str, key_id: str, spelled: tuple[str, str]) -> Name:
    """Add a spelling (and the line that it names; of seasons)."""
    spelling, line = spelled
    if vocabulary == "brand":
        brand = key_service_pb2.AddBrandAliasRequest(brand_id=key_id, alias=spelling)
        return (await stub.AddBrandAlias(brand, timeout=CALL_SECONDS)).brand
    if vocabulary == "city":
        city = key_service_pb2.AddCityAliasRequest(city_id=key_id, alias=spelling)
        return (await stub.AddCityAlias(city, timeout=CALL_SECONDS)).city
    request = key_service_pb2.AddSeasonAliasRequest(season_code=key_id, alias=spelling, line=line)
    return (await stub.AddSeasonAlias(request, timeout=CALL_SECONDS)).season
