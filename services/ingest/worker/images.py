"""Bring a gallery's images into the store: download, verify, hash, reserve, put, confirm, record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from frontrow.ingest.v1 import gallery_pb2, ingest_job_pb2
from frontrow.review.v1 import media_pb2
from frontrow.worker import Infrastructure, Run

from libs.common.objects import ObjectStore, StoreUnavailable
from libs.common.scratch import run_folder
from services.ingest.worker.decode import Decoded, Decoder
from services.ingest.worker.download import Downloader, Fetched
from services.ingest.worker.peers import IngestPeer, IntakePeer
from services.ingest.worker.problems import HostPaused, ImageProblem
from services.ingest.worker.settings import IngestWorkerSettings

BATCH = 16
Image = gallery_pb2.GalleryImage
Outcome = ingest_job_pb2.ImageOutcome


@dataclass(frozen=True, slots=True)
class Prepared:
    """An image that was downloaded and verified, with the files to store by key."""

    image: Image
    fetched: Fetched
    decoded: Decoded
    key: str
    thumbnails: tuple[tuple[str, Path], ...]

    def items(self) -> Iterator[media_pb2.MediaItem]:
        """Yield what review keeps of the original and its thumbnails."""
        yield media_pb2.MediaItem(
            key=self.key,
            sha256=self.fetched.sha256,
            size_bytes=self.fetched.size,
            content_type=self.decoded.content_type,
            width=self.decoded.width,
            height=self.decoded.height,
            dhash=self.decoded.dhash,
        )
        for (key, _), thumbnail in zip(self.thumbnails, self.decoded.thumbnails, strict=True):
            yield media_pb2.MediaItem(
                key=key,
                sha256=thumbnail.sha256,
                size_bytes=thumbnail.size,
                content_type="image/webp",
                width=thumbnail.width,
                height=thumbnail.height,
                parent_key=self.key,
            )

    def outcome(self) -> Outcome:
        """Return what the job keeps of it."""
        return Outcome(
            url=self.image.url,
            result=ingest_job_pb2.IMAGE_RESULT_STORED,
            media_key=self.key,
            sha256=self.fetched.sha256,
            size_bytes=self.fetched.size,
            content_type=self.decoded.content_type,
            width=self.decoded.width,
            height=self.decoded.height,
            dhash=self.decoded.dhash,
            thumbnail_keys=[key for key, _ in self.thumbnails],
        )


@dataclass(slots=True)
class Gathered:
    """What became of a gallery's images: keys by address, problems in the gallery's order, a pause."""

    keys: dict[str, str] = field(default_factory=dict)
    problems: list[tuple[Image, ImageProblem]] = field(default_factory=list)
    paused_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Job:
    """The job in hand."""

    run: Run
    job_id: str
    gallery: gallery_pb2.Gallery
    kept: Sequence[Outcome]


class GalleryImages:
    """Brings images of any number of galleries into one store."""

    def __init__(
        self,
        settings: IngestWorkerSettings,
        *,
        ingest: IngestPeer,
        intake: IntakePeer,
        store: ObjectStore,
        downloader: Downloader,
        decoder: Decoder,
    ) -> None:
        self._settings = settings
        self._ingest = ingest
        self._intake = intake
        self._store = store
        self._downloader = downloader
        self._decoder = decoder

    async def gather(self, job: Job, on_progress: Callable[[float], None]) -> Gathered:
        """Bring in what is missing; `on_progress` gets the share that is there, 0 to 1.

        Every image is tried, whatever becomes of the others: another try then needs the failed ones alone.

        Raises:
            Infrastructure: a peer or the store is in trouble.
            PeerRefused: a peer refused what it was told.
        """
        found = Gathered(keys=await self._still_there(job))
        missing = [image for image in job.gallery.images if image.url not in found.keys]
        total = len(job.gallery.images)
        # bounded: images wait on disk for their commit, not more than a batch
        ready: asyncio.Queue[Prepared | None] = asyncio.Queue(BATCH)
        with run_folder(self._settings.scratch, "ingest") as folder:
            async with _together() as group:
                group.create_task(self._prepare_all(job, missing, folder, ready, found))
                while batch := await _next_batch(ready):
                    await self._commit(job, batch)
                    found.keys.update({prepared.image.url: prepared.key for prepared in batch})
                    on_progress(len(found.keys) / total)
        await self._record_problems(job, found)
        order = {image.url: image.position for image in job.gallery.images}
        found.problems.sort(key=lambda problem: order[problem[0].url])
        return found

    async def _still_there(self, job: Job) -> dict[str, str]:
        """Return the keys kept from earlier tries whose objects are still stored."""
        stored = [o for o in job.kept if o.result == ingest_job_pb2.IMAGE_RESULT_STORED]
        items = {
            o.media_key: media_pb2.MediaItem(
                key=o.media_key,
                sha256=o.sha256,
                size_bytes=o.size_bytes,
                content_type=o.content_type,
                width=o.width,
                height=o.height,
            )
            for o in stored
        }
        live = await self._intake.reserve(job.job_id, list(items.values()))
        return {o.url: o.media_key for o in stored if o.media_key in live}

    async def _prepare_all(
        self,
        job: Job,
        missing: Sequence[Image],
        folder: Path,
        ready: asyncio.Queue[Prepared | None],
        found: Gathered,
    ) -> None:
        waiting = iter(missing)

        async def work() -> None:
            for image in waiting:
                try:
                    await ready.put(await self._prepare(image, job.gallery.source_url, folder))
                except ImageProblem as problem:
                    found.problems.append((image, problem))
                except HostPaused as paused:
                    found.paused_seconds = max(found.paused_seconds, paused.seconds)
                    found.problems.append((image, ImageProblem("SERVER_BUSY", "its host asked for a pause")))

        async with _together() as group:
            for _ in range(min(self._settings.downloads, len(missing))):
                group.create_task(work())
        await ready.put(None)

    async def _prepare(self, image: Image, referer: str, folder: Path) -> Prepared:
        path = folder / str(image.position)
        referer = referer if referer.startswith(("http://", "https://")) and referer.isascii() else ""
        fetched = await self._downloader.fetch(image.url, referer=referer, target=path)
        try:
            decoded = await self._decoder.decode(path)
        except ImageProblem as problem:
            if problem.reason == "BROKEN_IMAGE" and not fetched.length_known:
                # the server ended the body by closing: perhaps the connection was cut, so it is asked again
                raise ImageProblem("CUT_SHORT", problem.message) from problem
            raise
        stem = f"media/{fetched.sha1[:2]}/{fetched.sha1}"
        thumbnails = tuple(
            # named by both the original and the own bytes: another encoder makes another object
            (f"{stem}_{thumbnail.width}_{thumbnail.sha256[:8]}.webp", thumbnail.path)
            for thumbnail in decoded.thumbnails
        )
        return Prepared(image, fetched, decoded, f"{stem}.{decoded.extension}", thumbnails)

    async def _commit(self, job: Job, batch: Sequence[Prepared]) -> None:
        """Reserve, put what is not stored yet, confirm, record (domain.md 4.9)."""
        items = {item.key: item for prepared in batch for item in prepared.items()}
        files = {key: path for prepared in batch for key, path in prepared.thumbnails}
        files |= {prepared.key: prepared.fetched.path for prepared in batch}
        live = await self._intake.reserve(job.job_id, list(items.values()))
        absent = [key for key in items if key not in live]
        await self._put({key: files[key] for key in absent})
        await self._intake.confirm(job.job_id, absent)
        await self._ingest.record(job.run, job.job_id, [prepared.outcome() for prepared in batch])
        for prepared in batch:
            for path in (prepared.fetched.path, *(path for _, path in prepared.thumbnails)):
                path.unlink(missing_ok=True)

    async def _put(self, files: dict[str, Path]) -> None:
        try:
            async with _together() as group:
                for key, path in files.items():
                    group.create_task(self._store.put_file(key, path))
        except StoreUnavailable as error:
            raise Infrastructure(str(error)) from error

    async def _record_problems(self, job: Job, found: Gathered) -> None:
        outcomes = [
            Outcome(
                url=image.url,
                result=ingest_job_pb2.IMAGE_RESULT_FAILED,
                reason=problem.reason,
                message=problem.message[:500],
            )
            for image, problem in found.problems
        ]
        await self._ingest.record(job.run, job.job_id, outcomes)


async def _next_batch(ready: asyncio.Queue[Prepared | None]) -> list[Prepared]:
    """Wait for an image and take what else is ready; empty when no more will come."""
    first = await ready.get()
    if first is None:
        return []
    batch = [first]
    while len(batch) < BATCH and not ready.empty():
        following = ready.get_nowait()
        if following is None:
            ready.put_nowait(None)
            break
        batch.append(following)
    return batch


@asynccontextmanager
async def _together() -> AsyncIterator[asyncio.TaskGroup]:
    """Run tasks as a group, and raise the first one's error instead of a group of errors."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except* Exception as failures:
        raise _first(failures) from failures


def _first(failures: ExceptionGroup[Exception]) -> Exception:
    error: Exception = failures
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
