"""Fetch a recording from the web: guarded like images, resumable, hashed while it comes in.

A broken transfer goes on with a Range request; so does another run after this one was killed, behind the
pieces kept in the object store. Nothing is joined to bytes whose server does not say that they are of
the same file.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import aiohttp
import structlog

from libs.common.fetch_problems import FetchProblem, HostPaused
from libs.common.fetching import BUSY_STATUSES, Fetching, Manners, retry_after_seconds
from libs.common.loops import backoff_seconds
from libs.common.objects import ObjectMissing, ObjectStore
from services.asr.media.errors import EmptyFile
from services.asr.stored_names import fetched_key
from services.asr.worker.fetch_settings import FetchSettings
from services.asr.worker.peers import AsrPeer, Fetch, Piece
from services.asr.worker.recording_file import RecordingFile

log = structlog.get_logger(__name__)

_CHUNK_BYTES = 1 << 20
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
_LONGEST_VALIDATOR = 512


@dataclass(frozen=True, slots=True)
class Fetched:
    """A recording that was fetched: a file of the run's own folder, also stored."""

    path: Path
    size_bytes: int
    sha1: str
    resumed_bytes: int


@dataclass(frozen=True, slots=True)
class RunOfMaterial:
    """Which run fetches."""

    material_id: str
    asr_version: int


class Fetcher:
    """Fetches the recordings of all runs of a worker."""

    def __init__(self, settings: FetchSettings, store: ObjectStore, asr: AsrPeer) -> None:
        self.settings, self.store, self.asr = settings, store, asr

    async def fetch(
        self, run: RunOfMaterial, what: Fetch, folder: Path, on_share: Callable[[float], None]
    ) -> Fetched:
        """Fetch a recording into `folder` and the store, and give it to its material.

        `on_share` is told the share done, 0 to 1, where the size is known.

        Raises:
            FetchProblem: it can't be had, now or ever.
            HostPaused: its host asked for a long pause.
            EmptyFile: there are no bytes.
            StoreUnavailable: the store is in trouble. See also `AsrPeer`.
        """
        with RecordingFile(folder / "original") as file:
            fetching = _Fetching(self, run, what, file, on_share)
            resumed = await fetching.restore()
            await fetching.fetch()
            if file.size == 0:
                raise EmptyFile("the address gives a file without any bytes")
            # named by the run: an older one that still writes can't touch what this one gives to the material
            key = fetched_key(what.upload_id, run.asr_version)
            await self.store.put_file(key, file.path)
            await self.asr.finish_fetch(
                run.material_id, run.asr_version, key, size_bytes=file.size, sha1=file.sha1
            )
            return Fetched(file.path, file.size, file.sha1, resumed)


class _Fetching:
    """One recording on its way."""

    def __init__(
        self,
        fetcher: Fetcher,
        run: RunOfMaterial,
        what: Fetch,
        file: RecordingFile,
        on_share: Callable[[float], None],
    ) -> None:
        self._fetcher, self._run, self._what, self._file = fetcher, run, what, file
        self._on_share = on_share
        self._settings = fetcher.settings
        self._validator = what.validator
        self._total = what.size_bytes
        self._kept = 0

    async def restore(self) -> int:
        """Take over the pieces of earlier runs; returns their size, 0 when they can't be used."""
        if not self._validator:
            return 0  # nobody could say that what is fetched now belongs to them
        try:
            for piece in self._what.pieces:
                async for chunk in self._fetcher.store.stream(piece.object_key, chunk_bytes=_CHUNK_BYTES):
                    await self._file.write(chunk)
        except ObjectMissing as error:
            log.warning("asr.fetch_piece_lost", key=error.key)
        if self._file.size != sum(piece.size_bytes for piece in self._what.pieces):
            await self._begin_again()
        self._kept = self._file.size
        return self._kept

    async def fetch(self) -> None:
        """Fetch what is missing; goes on where a transfer broke as long as each brings something."""
        settings, broken, furthest = self._settings, 0, self._file.size
        manners = Manners(
            user_agent="frontrow-asr/1",
            connect_timeout_seconds=settings.connect_timeout_seconds,
            read_timeout_seconds=settings.read_timeout_seconds,
            allow_loopback=settings.allow_loopback,
        )
        async with Fetching(manners) as web:
            while True:
                try:
                    return await self._transfer(web)
                except FetchProblem as problem:
                    broken = 1 if self._file.size > furthest else broken + 1
                    furthest = max(furthest, self._file.size)
                    if not problem.transient or broken >= settings.attempts:
                        raise
                    log.info("asr.fetch_broken", reason=problem.reason, bytes=self._file.size, broken=broken)
                await asyncio.sleep(backoff_seconds(broken, first=settings.first_pause_seconds))

    async def _transfer(self, web: Fetching) -> None:
        headers = {}
        if self._file.size and self._validator:
            headers = {"Range": f"bytes={self._file.size}-", "If-Range": self._validator}
        async with web.open(self._what.url, headers) as response:
            if not await self._begins(response):
                return
            async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                await self._take(chunk)
        if self._total and self._file.size < self._total:
            raise FetchProblem("CUT_SHORT", f"{self._file.size} of {self._total} bytes came")

    async def _begins(self, response: aiohttp.ClientResponse) -> bool:
        """Look at an answer's head; returns whether bytes follow that go behind those that are there."""
        if response.status in BUSY_STATUSES:
            await self._wait_for(response)
            raise FetchProblem("SERVER_BUSY", f"the server answered {response.status}")
        if response.status == 416 and self._file.size == self._total > 0:
            return False
        if response.status not in {200, 206, 416}:
            raise FetchProblem("HTTP_STATUS", f"the server answered {response.status}")
        if response.headers.get("Content-Encoding", "identity").strip().lower() not in {"", "identity"}:
            raise FetchProblem("ENCODING", "the response has a content encoding that was not asked for")
        if response.status == 200:
            await self._begin_again()
            self._validator = _validator(response)
            self._total = response.content_length or 0
        elif not self._goes_on(response):
            await self._begin_again()
            raise FetchProblem("CUT_SHORT", "the server can't go on where the transfer broke")
        self._check_size(self._total)
        return True

    def _goes_on(self, response: aiohttp.ClientResponse) -> bool:
        """Tell whether a partial answer follows what is there: some servers look at no If-Range."""
        found = _RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
        if found is None or int(found[1]) != self._file.size:
            return False
        said = _validator(response)
        if said and said != self._validator:
            return False
        if found[2] != "*":
            if self._total not in {0, int(found[2])}:
                return False
            self._total = int(found[2])
        return True

    async def _take(self, chunk: bytes) -> None:
        await self._file.write(chunk)
        self._check_size(self._file.size)
        if self._total:
            self._on_share(min(1.0, self._file.size / self._total))
        if self._validator and self._file.size - self._kept >= self._settings.piece_bytes:
            await self._keep()

    async def _keep(self) -> None:
        """Store what came since the last piece, and have it noted."""
        data = await self._file.read(self._kept)
        key = f"uploads/{self._what.upload_id}/{self._kept:015d}-{uuid4().hex[:12]}"
        await self._fetcher.store.put_bytes(key, data)
        await self._fetcher.asr.save_piece(
            self._run.material_id,
            self._run.asr_version,
            self._kept,
            Piece(key, len(data)),
            validator=self._validator,
            total_bytes=self._total,
        )
        self._kept += len(data)

    async def _begin_again(self) -> None:
        await self._file.clear()
        self._kept, self._total, self._validator = 0, 0, ""

    def _check_size(self, size: int) -> None:
        if size > self._settings.max_bytes:
            raise FetchProblem("TOO_LARGE", f"larger than {self._settings.max_bytes} bytes")

    async def _wait_for(self, response: aiohttp.ClientResponse) -> None:
        """Wait out the pause that a busy server asks for. Raises HostPaused when that takes too long."""
        pause = retry_after_seconds(response.headers.get("Retry-After")) or 0.0
        if pause > self._settings.longest_host_wait_seconds:
            raise HostPaused(response.url.host or "", pause)
        await asyncio.sleep(pause)


def _validator(response: aiohttp.ClientResponse) -> str:
    """Return what a Range request may be bound to: a strong ETag, else a Last-Modified, else ''."""
    tag = response.headers.get("ETag", "").strip()
    found = tag if tag.startswith('"') else response.headers.get("Last-Modified", "").strip()
    return found if len(found) <= _LONGEST_VALIDATOR and found.isascii() and found.isprintable() else ""
