"""`frontrow spiders`: who may submit galleries."""

import click
from frontrow.ingest.v1 import ingest_service_pb2, ingest_service_pb2_grpc, spider_pb2

from cli.connection import CALL_SECONDS, Connection
from cli.output import as_dict, clock, json_option, print_json, print_table


@click.group()
def spiders() -> None:
    """Register spiders and list them.

    \b
    Examples:
      frontrow spiders add vogue
      frontrow spiders list
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
    click.echo(f"export FRONTROW_SPIDER_KEY_ID={answer.key_id}")
    click.echo(f"export FRONTROW_SPIDER_SECRET={answer.secret}")


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
            (spider.name, ", ".join(key.key_id for key in spider.keys), clock(spider.create_time))
            for spider in found
        ],
        empty="No spiders. `frontrow spiders add NAME` makes one.",
    )


async def _add(connection: Connection, name: str) -> ingest_service_pb2.CreateSpiderResponse:
    async with connection.channel("ingest") as channel:
        stub = ingest_service_pb2_grpc.IngestServiceStub(channel)
        return await stub.CreateSpider(
            ingest_service_pb2.CreateSpiderRequest(name=name), timeout=CALL_SECONDS
        )


async def _list(connection: Connection) -> list[spider_pb2.Spider]:
    async with connection.channel("ingest") as channel:
        stub = ingest_service_pb2_grpc.IngestServiceStub(channel)
        request = ingest_service_pb2.ListSpidersRequest(page_size=1000)
        return list((await stub.ListSpiders(request, timeout=CALL_SECONDS)).spiders)
