"""`frontrow spiders`: who may submit galleries."""

import click
from frontrow.ingest.v1 import ingest_service_pb2, ingest_service_pb2_grpc, spider_pb2

from cli.connection import CALL_SECONDS, Connection
from cli.output import as_dict, clock, json_option, print_json, print_table
from cli.paging import pages


@click.group()
def spiders() -> None:
    """Register spiders, list them, give them new keys and take old ones away.

    \b
    Examples:
      frontrow spiders add vogue
      frontrow spiders list
      frontrow spiders rotate vogue
      frontrow spiders revoke KEY_ID
    """


@spiders.command()
@click.argument("name")
@json_option
@click.pass_obj
def add(connection: Connection, name: str, as_json: bool) -> None:
    """Register a spider and print its key. The secret is shown this once.

    \b
    Example: put the key where `frontrow submit` and your spider read it
      eval "$(frontrow spiders add vogue)"
    """
    answer = connection.run("ingest", _add(connection, name))
    if as_json:
        print_json(as_dict(answer))
        return
    _print_exports(answer.key_id, answer.secret)


@spiders.command("list")
@json_option
@click.pass_obj
def list_spiders(connection: Connection, as_json: bool) -> None:
    """List all spiders and their keys (never the secrets)."""
    found = connection.run("ingest", _list(connection))
    if as_json:
        print_json([as_dict(spider) for spider in found])
        return
    print_table(
        ["spider", "keys", "created (UTC)"],
        [
            (spider.name, ", ".join(map(key_words, spider.keys)), clock(spider.create_time))
            for spider in found
        ],
        empty="No spiders. `frontrow spiders add NAME` makes one.",
    )


@spiders.command()
@click.argument("name")
@json_option
@click.pass_obj
def rotate(connection: Connection, name: str, as_json: bool) -> None:
    """Give a spider another key. Both work until the old one is revoked; the secret is shown this once.

    \b
    Example: change keys without a gap
      eval "$(frontrow spiders rotate vogue)"     then set it where the spider reads it
      frontrow spiders revoke OLD_KEY_ID
    """
    answer = connection.run("ingest", _rotate(connection, name))
    if as_json:
        print_json(as_dict(answer))
        return
    _print_exports(answer.key_id, answer.secret)
    for key in working(answer.spider):
        if key.key_id != answer.key_id:
            click.echo(f"the old key works until: frontrow spiders revoke {key.key_id}", err=True)


@spiders.command()
@click.argument("key_id")
@json_option
@click.pass_obj
def revoke(connection: Connection, key_id: str, as_json: bool) -> None:
    """Let a key work no more, from the next call on. Can be said again.

    \b
    Examples:
      frontrow spiders list
      frontrow spiders revoke KEY_ID
    """
    spider = connection.run("ingest", _revoke(connection, key_id))
    if as_json:
        print_json(as_dict(spider))
        return
    left = ", ".join(key.key_id for key in working(spider))
    click.echo(
        f"{key_id} works no more; {spider.name} has "
        + (left or f"no key that works: `frontrow spiders rotate {spider.name}` makes one")
    )


def working(spider: spider_pb2.Spider) -> list[spider_pb2.SpiderKey]:
    """Return the keys that aren't revoked, newest first."""
    return [key for key in spider.keys if not key.HasField("revoke_time")]


def key_words(key: spider_pb2.SpiderKey) -> str:
    """Return a key's id, with a word when it works no more."""
    return f"{key.key_id} (revoked)" if key.HasField("revoke_time") else key.key_id


def _print_exports(key_id: str, secret: str) -> None:
    click.echo(f"export FRONTROW_SPIDER_KEY_ID={key_id}")
    click.echo(f"export FRONTROW_SPIDER_SECRET={secret}")


async def _add(connection: Connection, name: str) -> ingest_service_pb2.CreateSpiderResponse:
    async with connection.channel("ingest") as channel:
        stub = ingest_service_pb2_grpc.IngestServiceStub(channel)
        return await stub.CreateSpider(
            ingest_service_pb2.CreateSpiderRequest(name=name), timeout=CALL_SECONDS
        )


async def _list(connection: Connection) -> list[spider_pb2.Spider]:
    async with connection.channel("ingest") as channel:
        return await _all(ingest_service_pb2_grpc.IngestServiceStub(channel))


async def _all(stub: "ingest_service_pb2_grpc.IngestServiceAsyncStub") -> list[spider_pb2.Spider]:
    """Read all pages."""
    request = ingest_service_pb2.ListSpidersRequest(page_size=1000)
    return [spider async for page in pages(stub.ListSpiders, request) for spider in page.spiders]


async def _rotate(connection: Connection, name: str) -> ingest_service_pb2.RotateSpiderKeyResponse:
    """Find the spider by its name (or its id) and give it a key."""
    async with connection.channel("ingest") as channel:
        stub = ingest_service_pb2_grpc.IngestServiceStub(channel)
        ids = [spider.spider_id for spider in await _all(stub) if name in (spider.name, spider.spider_id)]
        if not ids:
            raise click.ClickException(f"no spider is called {name!r}; `frontrow spiders list` names them")
        request = ingest_service_pb2.RotateSpiderKeyRequest(spider_id=ids[0])
        return await stub.RotateSpiderKey(request, timeout=CALL_SECONDS)


async def _revoke(connection: Connection, key_id: str) -> spider_pb2.Spider:
    async with connection.channel("ingest") as channel:
        stub = ingest_service_pb2_grpc.IngestServiceStub(channel)
        request = ingest_service_pb2.RevokeSpiderKeyRequest(key_id=key_id)
        return (await stub.RevokeSpiderKey(request, timeout=CALL_SECONDS)).spider
