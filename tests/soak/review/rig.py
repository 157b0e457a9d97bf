"""The real thing under the machine: two review servers, PostgreSQL, a folder as store, clean-ups by hand."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections import Counter
from collections.abc import Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
from frontrow.review.v1 import key_service_pb2 as keys
from frontrow.review.v1 import media_pb2

from libs.common.client import connect
from libs.common.context_server import ContextServer
from libs.common.db import Database
from libs.common.lane import driver_url
from libs.common.objects import open_store
from libs.common.settings import (
    CommonSettings,
    DatabaseSettings,
    PeerSettings,
    StoreSettings,
    TelemetrySettings,
    TransportSettings,
)
from services.review.cleanup import CleanUpLimits, MediaCare
from services.review.mount import mount
from services.review.settings import ReviewSettings
from tests.integration.review.gallery import Gallery, item_of
from tests.soak.review.picture import Id, Picture, look

T = TypeVar("T")

CALL_SECONDS = 60.0
SERVERS = 2
NAMES = 3
PICTURES = 7
# Every second picture has a thumbnail, which lives and goes with it.
THUMBED = range(1, PICTURES, 2)
_EMPTY = """
    DELETE FROM review.brand_runways; DELETE FROM review.street_snaps;
    DELETE FROM review.brand_runway_drafts; DELETE FROM review.street_snap_drafts;
    DELETE FROM review.draft_events; DELETE FROM review.media WHERE parent_id IS NOT NULL;
    DELETE FROM review.media; DELETE FROM review.audit_log;
"""
_APART = "UPDATE review.{table} SET {pointer} = NULL, {root} = {identity} WHERE {identity} = ANY($1)"
_PASS = "UPDATE review.media SET touched_at = touched_at - $1::interval, marked_at = marked_at - $1::interval"


def bytes_of(number: int, *, thumbnail: bool = False) -> bytes:
    """Return the bytes of one of the pictures, or of its thumbnail."""
    return f"picture {number}{' small' * thumbnail}".encode()


def items_of(number: int) -> list[media_pb2.MediaItem]:
    """Return the announcements of a picture and of its thumbnail."""
    original = item_of(bytes_of(number), dhash=hashlib.md5(bytes_of(number)).hexdigest()[:16])
    if number not in THUMBED:
        return [original]
    return [original, item_of(bytes_of(number, thumbnail=True), parent_key=original.key)]


def key_of(number: int) -> str:
    """Return the key of a picture."""
    return items_of(number)[0].key


class Rig:
    """Runs in an event loop of its own, which only moves inside `run`."""

    def __init__(self, database_url: str, folder: Path) -> None:
        self.url = database_url
        self.steps = 0
        self.outcomes: Counter[str] = Counter()
        self.folder = folder
        self.clients: list[Gallery] = []
        self.own: dict[str, list[Id]] = {}
        self._servers: list[ContextServer] = []
        self._settings = StoreSettings(object_store=str(folder))
        self.store = open_store(self._settings)
        self._loop = asyncio.new_event_loop()
        self.run(self._open())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do some work in the rig's loop."""
        return self._loop.run_until_complete(asyncio.wait_for(work, CALL_SECONDS))

    async def _open(self) -> None:
        self._watch = await asyncpg.connect(driver_url(self.url))
        self.database = Database(DatabaseSettings(url=self.url), "soak-care")
        common = CommonSettings(
            database=DatabaseSettings(url=self.url, pool_size=10, max_overflow=10, pool_timeout_seconds=30),
            transport=TransportSettings(),
            peers=PeerSettings(),
            store=self._settings,
            telemetry=TelemetrySettings(),
        )
        for _ in range(SERVERS):
            server = ContextServer("review", "127.0.0.1:0", await mount(ReviewSettings(), common))
            self._servers.append(server)
            self.clients.append(Gallery(connect(await server.start())))
        await self._name()

    async def _name(self) -> None:
        """Create the names that keys of the examples are made of."""
        stub = self.clients[0].keys
        self.own = {"city": [], "brand": [], "season": []}
        for number in range(NAMES):
            city = await stub.CreateCity(keys.CreateCityRequest(name=f"Machine City {number}"))
            self.own["city"].append(int(city.city.city_id))
            brand = await stub.CreateBrand(keys.CreateBrandRequest(name=f"Machine House {number}"))
            self.own["brand"].append(int(brand.brand.brand_id))
            code = f"Machine Season {number}"
            await stub.CreateSeason(keys.CreateSeasonRequest(season_code=code, name=code))
            self.own["season"].append(code)

    async def begin(self) -> None:
        """Forget everything but the names, which stand for themselves again."""
        await self._watch.execute(_EMPTY)
        for table, identity, pointer, root, own in (
            ("cities", "id", "canonical_id", "root_id", self.own["city"]),
            ("brands", "id", "canonical_id", "root_id", self.own["brand"]),
            ("seasons", "code", "canonical_code", "root_code", self.own["season"]),
        ):
            query = _APART.format(table=table, identity=identity, pointer=pointer, root=root)
            await self._watch.execute(query, own)
        shutil.rmtree(self.folder / "media", ignore_errors=True)

    async def pass_time(self, hours: int) -> None:
        """Let time pass for all media rows."""
        await self._watch.execute(_PASS, timedelta(hours=hours))

    def care(self, grace_hours: int, store: Any = None) -> MediaCare:
        """Return a clean-up with this grace; a small set of pictures makes every share plausible."""
        limits = CleanUpLimits(timedelta(hours=grace_hours), share=1, plausible=10**6)
        return MediaCare(self.database, store or self.store, limits)

    async def look(self) -> Picture:
        """Return what stands in the database now."""
        return await look(self._watch, self.own)

    def objects(self) -> dict[str, bytes]:
        """Return what is stored now."""
        files = (path for path in (self.folder / "media").rglob("*") if path.is_file())
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in files}

    def close(self) -> None:
        """Stop all of it."""
        self.run(self._close())
        self._loop.close()

    async def _close(self) -> None:
        for client, server in zip(self.clients, self._servers, strict=True):
            await client.channel.close()
            await server.stop(grace_seconds=0)
        await self.database.close()
        await self._watch.close()
