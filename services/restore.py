"""Put a backup into an empty database and an empty store; every byte is checked on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import asyncpg

from libs.common import database_dump, migrate
from libs.common.lane import driver_url
from libs.common.objects import ObjectMissing, ObjectStore
from libs.common.objects.copying import WrongContent, copy_object, for_each
from libs.common.objects.local import LocalStore
from services import backup_manifest
from services.backup import needed_objects
from services.backup_manifest import DUMP, OBJECTS, Manifest, NoBackup
from services.migrate import CONTEXTS
from services.place import Place, Refused


class NotEmpty(Refused):
    """Say that there are data already, which a restore would mix with others."""


class RestoreFailed(Refused):
    """Say what isn't as the backup has it."""


async def restore(place: Place, folder: Path) -> Manifest:
    """Put all of a backup into the place; return its manifest.

    Objects come first, then the database in one transaction: no row ever lacks its bytes. What was broken off
    goes on when it is called again.

    Raises:
        NoBackup: the folder holds no whole, undamaged backup that this release understands.
        NotEmpty: the place has data of its own.
        RestoreFailed, DumpFailed, PostgresUnavailable, StoreUnavailable.
    """
    manifest = await asyncio.to_thread(backup_manifest.read, folder)
    _refuse_newer(manifest)
    sums = await asyncio.to_thread(backup_manifest.read_sums, folder)
    url = place.database.url
    present = [name for name in CONTEXTS if name in manifest.contexts and manifest.contexts[name].rows]
    await _want_empty_database(url)
    await _want_empty_store(place, sums)
    await _put_objects(LocalStore(folder / OBJECTS), place.store, sums)
    await _make_schemas(place)
    await database_dump.restore(url, present, folder / DUMP, client_major=manifest.pg_dump_major)
    await place.hand_over()
    await _compare(url, manifest, sums)
    return manifest


def _refuse_newer(manifest: Manifest) -> None:
    for name, part in manifest.contexts.items():
        if name not in CONTEXTS or migrate.standing(name, part.revision).pending is None:
            raise NoBackup(
                f"the backup is of a newer Frontrow ({manifest.frontrow}; {name} is at revision "
                f"{part.revision} there): restore it with that one or a newer one"
            )


async def _want_empty_database(url: str) -> None:
    async with database_dump.snapshot(url) as state:
        counts = await state.counts(CONTEXTS)
    if found := [f"{name}.{table}" for name, tables in counts.items() for table in tables]:
        raise NotEmpty(
            f"the database has tables already ({found[0]} and {len(found) - 1} more): a backup goes into an "
            "empty one; name another data folder (--data-dir) or database (FRONTROW_DATABASE_URL)"
        )


async def _want_empty_store(place: Place, sums: Mapping[str, str]) -> None:
    async for key in place.store.list():
        if key not in sums:
            raise NotEmpty(
                f"{place.store_address} has objects already ({key}): a backup goes into an empty store; name "
                "another one (FRONTROW_OBJECT_STORE)"
            )


async def _put_objects(source: ObjectStore, target: ObjectStore, sums: Mapping[str, str]) -> None:
    async def keys() -> AsyncIterator[str]:
        for key in sums:
            yield key

    async def put(key: str) -> None:
        try:
            await copy_object(source, target, key, sha256=sums[key])
        except (ObjectMissing, WrongContent) as error:
            raise NoBackup(f"the backup is damaged: {error}; nothing was put into the database") from error

    await for_each(keys(), put)


async def _make_schemas(place: Place) -> None:
    """Make the schemas: with their roles, or without."""
    await place.hand_over()
    connection = await asyncpg.connect(driver_url(place.database.url))
    try:
        for name in CONTEXTS:
            if await connection.fetchval("SELECT to_regnamespace($1)", name) is None:
                await connection.execute(f"CREATE SCHEMA {name}")
    finally:
        await connection.close()


async def _compare(url: str, manifest: Manifest, sums: Mapping[str, str]) -> None:
    """Count all rows again, and look for each object that a row needs; then gather statistics."""
    async with database_dump.snapshot(url) as state:
        counts = await state.counts(CONTEXTS)
        needed = await needed_objects(state, counts)
    for name, part in manifest.contexts.items():
        for table in sorted(part.rows.keys() | counts[name].keys()):
            was, now = part.rows.get(table, 0), counts[name].get(table, 0)
            if was != now:
                raise RestoreFailed(f"{name}.{table} had {was} rows and has {now} now")
    if bare := sorted({one.key for one in needed} - sums.keys() - set(manifest.lost)):
        raise RestoreFailed(f"{len(bare)} objects that rows need aren't in the backup: {bare[0]} …")
    connection = await asyncpg.connect(driver_url(url))
    await connection.execute("ANALYZE")
    await connection.close()
