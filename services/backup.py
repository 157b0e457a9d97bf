"""Write a consistent copy of database and objects while everything runs.

What counts is the order: the database first, in one snapshot over all contexts, then the objects. Objects are
added and, by clean-ups, removed; so all that the snapshot's rows need is there to be copied, except what a
clean-up has taken in between: then a newer snapshot, whose rows no longer need it, takes the place of the
first. Most objects are copied before the snapshot, so that this in-between is short, however many there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sqlalchemy import Executable

from libs.common import database_dump, migrate
from libs.common.objects import ObjectInfo, ObjectStore
from libs.common.objects.copying import Copied, for_each, gather
from libs.common.objects.local import LocalStore
from services import backup_manifest
from services.asr import repository_stored as asr_stored
from services.backup_manifest import DUMP, MANIFEST, OBJECTS, SUMS, ContextPart, Manifest, NoBackup
from services.migrate import CONTEXTS
from services.place import Place, Refused
from services.review import repository_stored as review_stored

ROUNDS = 5


class BackupFailed(Refused):
    """Say why there is no backup; a next try in the same folder goes on with what is copied."""


@dataclass(frozen=True)
class Needed:
    """An object that a row needs: its key, and what is known of it (None: nothing)."""

    key: str
    size_bytes: int | None
    sha256: str | None


@dataclass(frozen=True)
class _Round:
    """One snapshot: what is in the dump."""

    postgresql: str
    pg_dump_major: int
    contexts: dict[str, ContextPart]
    needed: list[Needed]


async def back_up(place: Place, folder: Path) -> Manifest:
    """Write a backup into a folder, or go on with one that was broken off; return its manifest.

    Raises:
        NoBackup: the folder holds something else, or a whole backup already.
        BackupFailed, DumpFailed, PostgresUnavailable, StoreUnavailable.
    """
    await asyncio.to_thread(_prepare, folder)
    target = LocalStore(folder / OBJECTS)
    await target.sweep_abandoned(0)
    objects: dict[str, Copied] = {}
    unseen: set[str] = set()
    await _copy(place.store, target, objects, [])
    for _ in range(ROUNDS):
        created_at = datetime.now(UTC)
        held = await _hold(place, folder)
        listed = await _copy(place.store, target, objects, held.needed)
        missing = {one.key for one in held.needed if one.key not in objects}
        # What was away before this snapshot and is needed in it is lost; no newer one would tell otherwise.
        if missing <= unseen:
            break
        unseen = missing
    else:
        raise BackupFailed(
            f"objects went away while they were copied, {ROUNDS} times: a clean-up runs; try again after it"
        )
    _refuse_the_wrong_store(place, held.needed, missing)
    await _drop_others(target, objects, listed | {one.key for one in held.needed})
    damaged = {one.key for one in held.needed if one.key in objects and _differs(one, objects[one.key])}
    manifest = Manifest(
        created_at=created_at,
        frontrow=_release(),
        postgresql=held.postgresql,
        pg_dump_major=held.pg_dump_major,
        contexts=held.contexts,
        database=await asyncio.to_thread(backup_manifest.hash_file, folder / DUMP),
        objects=await asyncio.to_thread(backup_manifest.write_sums, folder, objects),
        lost=sorted(missing | damaged),
    )
    await asyncio.to_thread(backup_manifest.write, folder, manifest)
    return manifest


def _prepare(folder: Path) -> None:
    """Make the folder, for its owner alone. Raises NoBackup when something else is in it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    names = {path.name for path in folder.iterdir()}
    if MANIFEST in names:
        raise NoBackup(f"{folder} is a whole backup already: choose another folder")
    if strange := sorted(name for name in names - {DUMP, SUMS, OBJECTS} if not name.startswith(".")):
        raise NoBackup(f"{folder} holds something else ({strange[0]}): choose an empty folder")


async def _hold(place: Place, folder: Path) -> _Round:
    """Dump one snapshot; return what is in it."""
    url = place.database.url
    async with database_dump.snapshot(url) as state:
        counts = await state.counts(CONTEXTS)
        revisions = {name: await migrate.revision_of(state.connection, name) for name in CONTEXTS}
        needed = await needed_objects(state, counts)
        there = [name for name in CONTEXTS if counts[name]]
        if not there:
            raise BackupFailed("the database has no tables of Frontrow: is it the right one?")
        major = await database_dump.dump(url, state, there, folder / DUMP)
        release = await state.server_version()
    contexts = {name: ContextPart(revision=revisions[name], rows=counts[name]) for name in CONTEXTS}
    return _Round(release, major, contexts, needed)


async def needed_objects(state: database_dump.Snapshot, tables: Mapping[str, object]) -> list[Needed]:
    """Return every object that rows of a snapshot need; a schema without tables needs none."""
    found: dict[str, Needed] = {}
    queries: dict[str, Executable] = {"review": review_stored.needed(), "asr": asr_stored.needed()}
    for name, query in queries.items():
        if tables[name]:
            async for row in await state.connection.stream(query):
                one = Needed(*row)
                found[one.key] = one
    return sorted(found.values(), key=lambda one: one.key)


async def _copy(
    source: ObjectStore, target: ObjectStore, objects: dict[str, Copied], needed: list[Needed]
) -> set[str]:
    """Copy what is in the source and not yet in `objects`, which takes it up; return the source's keys.

    What isn't named by its hash may have been put anew: it is copied again when its size has changed.
    """
    listed: set[str] = set()
    unsure = {one.key for one in needed if one.sha256 is None}

    async def keys() -> AsyncIterator[str]:
        async for key in source.list():
            listed.add(key)
            if key not in objects or key in unsure:
                yield key
        # what came after its folder was listed
        for one in needed:
            if one.key not in listed and one.key not in objects:
                yield one.key

    async def copy(key: str) -> None:
        known = objects.get(key)
        if known is not None and await source.head(key) in (None, ObjectInfo(known.size_bytes)):
            return
        if (copied := await gather(source, target, key)) is not None:
            objects[key] = copied

    await for_each(keys(), copy)
    return listed


async def _drop_others(target: ObjectStore, objects: dict[str, Copied], wanted: set[str]) -> None:
    """Remove copies of what went before the snapshot: no row would ever lead to them again."""
    async for key in target.list():
        if key not in wanted:
            await target.delete(key)
            objects.pop(key, None)


def _differs(one: Needed, copied: Copied) -> bool:
    return one.size_bytes not in (None, copied.size_bytes) or one.sha256 not in (None, copied.sha256)


def _refuse_the_wrong_store(place: Place, needed: list[Needed], missing: set[str]) -> None:
    if missing and len(missing) == len(needed):
        raise BackupFailed(
            f"{place.store_address} has none of the {len(needed)} objects that the database needs: set "
            "FRONTROW_OBJECT_STORE to the store of this database"
        )


def _release() -> str:
    try:
        return version("frontrow")
    except PackageNotFoundError:
        return "from source"
