"""`frontrow db`: the database's roles, revisions, backups."""

import asyncio
from pathlib import Path
from typing import Any

import click

from cli.output import console, json_option, print_json
from libs.common.settings import role_of


@click.group()
def db() -> None:
    """Look after the database: roles, migrations, backups. Needs no running server.

    \b
    Examples:
      frontrow db roles --passwords roles.pgpass > roles.sql
    """


@db.command()
@click.option("--apply", is_flag=True, help="Run it on FRONTROW_DATABASE_URL; without this it is printed.")
@click.option(
    "--passwords",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File of their passwords, as PGPASSFILE has them; those it lacks are made and added.",
)
@json_option
def roles(*, apply: bool, passwords: Path | None, as_json: bool) -> None:
    """Give each context a login role that owns its schema and can't read another's.

    For a PostgreSQL of your own: the embedded one has its roles by itself. Whoever runs the statements owns
    the database and has CREATEROLE, or is a superuser. They may be run again at any time, and hand over what
    another role made. No password can be read from them.

    Then every server gets FRONTROW_DATABASE_ROLES=true and the file of passwords: as PGPASSFILE, or as
    ?passfile= in its FRONTROW_DATABASE_URL.

    \b
    Examples:
      frontrow db roles --passwords roles.pgpass > roles.sql
      psql "$URL" -v ON_ERROR_STOP=1 -f roles.sql
      FRONTROW_DATABASE_URL="$URL" frontrow db roles --passwords roles.pgpass --apply
    """
    from services import roles as contexts_roles

    try:
        known = contexts_roles.passwords(passwords) if passwords else None
        sql = contexts_roles.script(known)
        if apply:
            asyncio.run(contexts_roles.apply(known))
    except contexts_roles.REFUSALS as error:
        raise click.ClickException(str(error)) from error
    _tell(sql, applied=apply, as_json=as_json)


def _tell(sql: str, *, applied: bool, as_json: bool) -> None:
    from services.migrate import CONTEXTS

    names = [{"role": role_of(name), "schema": name} for name in CONTEXTS]
    if as_json:
        told: dict[str, Any] = {"roles": names, "applied": applied}
        print_json(told if applied else {**told, "sql": sql})
    elif applied:
        for one in names:
            console.print(f"{one['role']} owns {one['schema']}", markup=False, highlight=False)
    else:
        click.echo(sql, nl=False)
