"""`frontrow brands`: which brands a runway show may name; short for `frontrow keys … brand`."""

import click

from cli.commands.keys import create, list_keys
from cli.output import json_option


@click.group()
def brands() -> None:
    """List and add brands. A show of a brand that isn't here fails, naming the brand.

    Short for `frontrow keys list brand` and `frontrow keys create brand`; spellings and merging are there.

    \b
    Examples:
      frontrow brands list
      frontrow brands add "Acne Studios" --alias "ACNE"
    """


@brands.command("list")
@json_option
@click.pass_context
def list_brands(ctx: click.Context, as_json: bool) -> None:
    """List all brands with the other names they go by."""
    ctx.invoke(list_keys, vocabulary="brand", as_json=as_json)


@brands.command()
@click.argument("name")
@click.option("--alias", "aliases", multiple=True, help="Another name it goes by. Repeatable.")
@json_option
@click.pass_context
def add(ctx: click.Context, name: str, aliases: tuple[str, ...], as_json: bool) -> None:
    """Add a brand."""
    ctx.invoke(create, vocabulary="brand", name=name, aliases=aliases, code="", as_json=as_json)
