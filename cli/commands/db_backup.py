"""`frontrow db backup` and `frontrow db restore`: all data of a place, whole and checked."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli import place as places
from cli.connection import Connection
from cli.output import console, json_option, print_json, several, size

if TYPE_CHECKING:
    from services.backup_manifest import Manifest

_SHOWN = 20
_folder = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))


@click.command()
@_folder
@json_option
@click.pass_context
def backup(ctx: click.Context, *, folder: Path, as_json: bool) -> None:
    """Back up database and objects, while everything runs.

    What FOLDER holds then is consistent: no row lacks the bytes that it needs.

    Broken off, the same command goes on where it was. Fails when an object that the database needs is lost or
    damaged in the store; the backup is whole without it then.

    Spiders' secrets in it are sealed. The key is not in it: keep DATA_DIR/ingest-sealing.key, or what
    FRONTROW_INGEST_SEALING_KEY says, in another place.

    \b
    Examples:
      frontrow db backup /backups/2026-12-01
      sha256sum --quiet -c SHA256SUMS          in that folder, at any time
    """
    connection: Connection = ctx.obj
    from services.backup import back_up

    manifest = places.at(connection.data_dir, lambda place: back_up(place, folder))
    _tell(manifest, f"{folder} has", as_json=as_json)
    if manifest.lost:
        ctx.exit(1)


@click.command()
@_folder
@json_option
@click.pass_obj
def restore(connection: Connection, *, folder: Path, as_json: bool) -> None:
    """Put a backup into an empty place.

    That is a new data folder, or an empty database (FRONTROW_DATABASE_URL) and an empty store.

    Every object is compared with its hash, every table with its number of rows. Start Frontrow after it; an
    older backup's tables are brought up to date then. Put the sealing key back, too, or spiders need new
    keys.

    \b
    Examples:
      frontrow --data-dir /srv/new db restore /backups/2026-12-01
      FRONTROW_DATABASE_URL=… FRONTROW_OBJECT_STORE=s3://… frontrow db restore /backups/2026-12-01
    """
    from services.restore import restore as put_back

    manifest = places.at(connection.data_dir, lambda place: put_back(place, folder), make=True)
    _tell(manifest, "restored:", as_json=as_json)


def _tell(manifest: "Manifest", what: str, *, as_json: bool) -> None:
    if as_json:
        print_json(manifest.model_dump(mode="json"))
        return
    rows = sum(sum(part.rows.values()) for part in manifest.contexts.values())
    console.print(
        f"{what} {several(rows, 'row')} and {several(manifest.objects.count, 'object')} "
        f"({size(manifest.objects.size_bytes)}), as of {manifest.created_at:%Y-%m-%d %H:%M:%S} UTC.",
        markup=False,
        highlight=False,
    )
    if manifest.lost:
        console.print(
            f"{several(len(manifest.lost), 'object')} that rows need were lost or damaged in the store:",
            style="red",
            highlight=False,
        )
        for key in manifest.lost[:_SHOWN]:
            console.print(f"  {key}", markup=False, highlight=False)
