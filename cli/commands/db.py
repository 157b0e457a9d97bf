"""`frontrow db`: the database's roles and revisions; backups of database and objects."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli import place as places
from cli.commands.db_backup import backup, restore
from cli.connection import Connection
from cli.output import console, json_option, print_json, print_table, several
from libs.common.settings import role_of

if TYPE_CHECKING:
    from libs.common.migrate import Status
    from services.place import Place


@click.group()
def db() -> None:
    """Look after the database: roles, migrations, backups. Needs no running server.

    Works on the embedded PostgreSQL of the data folder, whether Frontrow runs or not, or on the one that
    FRONTROW_DATABASE_URL names, as a role that may look into all schemas.

    \b
    Examples:
      frontrow db migrate --dry-run
      frontrow db backup /backups/2026-12-01
      frontrow --data-dir /srv/new db restore /backups/2026-12-01
      frontrow db roles --passwords roles.pgpass > roles.sql
    """


db.add_command(backup)
db.add_command(restore)


@db.command()
@click.option("--dry-run", is_flag=True, help="Show what would run; write nothing.")
@json_option
@click.pass_obj
def migrate(connection: Connection, *, dry_run: bool, as_json: bool) -> None:
    """Bring all tables up to date, or show how far they are.

    Servers do it by themselves when they start; before an upgrade in turns this does it once, beside the
    servers that run. Several at once are safe.

    \b
    Examples:
      frontrow db migrate --dry-run
      frontrow db migrate
    """
    found = places.at(connection.data_dir, _standing if dry_run else _migrated)
    if as_json:
        print_json([_as_dict(name, status) for name, status in found.items()])
        return
    rows = [(name, one.revision or "none", one.head, _pending(one)) for name, one in found.items()]
    print_table(["context", "revision", "newest", "to do"], rows, empty="")


async def _standing(place: "Place") -> "dict[str, Status]":
    from libs.common import migrate as migrations
    from services.migrate import CONTEXTS

    return {name: await migrations.status(place.database.of(name).url, name) for name in CONTEXTS}


async def _migrated(place: "Place") -> "dict[str, Status]":
    from services.migrate import upgrade

    await upgrade(place.database)
    return await _standing(place)


def _pending(one: "Status") -> str:
    if one.pending is None:
        return "none: a newer release was here"
    if not one.pending:
        return "nothing"
    return f"{several(len(one.pending), 'revision')}, to {one.pending[-1][0]}"


def _as_dict(name: str, one: "Status") -> dict[str, Any]:
    pending = None if one.pending is None else [{"revision": key, "what": what} for key, what in one.pending]
    return {"context": name, "revision": one.revision, "head": one.head, "pending": pending}


@db.command()
@click.option("--apply", is_flag=True, help="Run it on FRONTROW_DATABASE_URL; without this it is printed.")
@click.option(
    "--passwords",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File of their passwords, as PGPASSFILE has them; those it lacks are made and added.",
)
@click.option(
    "--identities",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the processes' identities: FOLDER/CONTEXT/database.pgpass gets that one password.",
)
@json_option
def roles(*, apply: bool, passwords: Path | None, identities: Path | None, as_json: bool) -> None:
    """Give each context a database role of its own.

    It owns its context's schema and can't read another's.

    For a PostgreSQL of your own: the embedded one has its roles by itself. Whoever runs the statements owns
    the database and has CREATEROLE, or is a superuser. They may be run again at any time, and hand over what
    another role made. No password can be read from them.

    Then every server gets FRONTROW_DATABASE_ROLES=true and the file of passwords, or of its own one: as
    PGPASSFILE, or as ?passfile= in its FRONTROW_DATABASE_URL.

    \b
    Examples:
      frontrow db roles --passwords roles.pgpass > roles.sql
      psql "$URL" -v ON_ERROR_STOP=1 -f roles.sql
      FRONTROW_DATABASE_URL="$URL" frontrow db roles --passwords roles.pgpass --identities pki --apply
    """
    from services import roles as contexts_roles

    if identities and not passwords:
        raise click.UsageError("--identities needs --passwords: the file that all of them are kept in")

    async def statements() -> str:
        known = contexts_roles.passwords(passwords) if passwords else None
        if apply:
            await contexts_roles.apply(known)
        if identities and known:
            contexts_roles.hand_out(identities, known)
        return contexts_roles.script(known)

    _tell(places.run(statements), applied=apply, as_json=as_json)


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
