"""`frontrow brands`: which brands a runway show may name."""

import click
from frontrow.review.v1 import key_pb2, key_service_pb2, key_service_pb2_grpc

from cli.connection import CALL_SECONDS, Connection
from cli.output import as_dict, console, json_option, print_json, print_table


@click.group()
def brands() -> None:
    """List and add brands. A show of a brand that isn't here fails, naming the brand.

    \b
    Examples:
      frontrow brands list
      frontrow brands add "Acne Studios" --alias "ACNE"
    """


@brands.command("list")
@json_option
@click.pass_obj
def list_brands(connection: Connection, as_json: bool) -> None:
    """List all brands with the other names they go by."""
    found = connection.run("review", _list(connection))
    if as_json:
        print_json([as_dict(brand) for brand in found])
        return
    print_table(
        ["id", "brand", "also"],
        [(brand.brand_id, brand.name, ", ".join(brand.aliases)) for brand in found],
        empty='No brands. `frontrow brands add "Acne Studios"` adds one.',
    )


@brands.command()
@click.argument("name")
@click.option("--alias", "aliases", multiple=True, help="Another name it goes by. Repeatable.")
@json_option
@click.pass_obj
def add(connection: Connection, name: str, aliases: tuple[str, ...], as_json: bool) -> None:
    """Add a brand."""
    request = key_service_pb2.CreateBrandRequest(name=name, aliases=aliases)
    brand = connection.run("review", _add(connection, request))
    if as_json:
        print_json(as_dict(brand))
    else:
        console.print(f"brand {brand.brand_id}: {brand.name}")


async def _list(connection: Connection) -> list[key_pb2.Brand]:
    """Read all pages."""
    found: list[key_pb2.Brand] = []
    token = ""
    async with connection.channel("review") as channel:
        stub = key_service_pb2_grpc.KeyServiceStub(channel)
        while True:
            request = key_service_pb2.ListBrandKeysRequest(page_size=500, page_token=token)
            page = await stub.ListBrandKeys(request, timeout=CALL_SECONDS)
            found += page.brands
            token = page.next_page_token
            if not token:
                return found


async def _add(connection: Connection, request: key_service_pb2.CreateBrandRequest) -> key_pb2.Brand:
    async with connection.channel("review") as channel:
        stub = key_service_pb2_grpc.KeyServiceStub(channel)
        return (await stub.CreateBrand(request, timeout=CALL_SECONDS)).brand
