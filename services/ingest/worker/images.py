"""Bring a gallery's images into the store: download, verify, hash, reserve, put, confirm, record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from frontrow.ingest.v1 import ingest_job_pb2
from frontrow.review.v1 import media_pb2
from frontrow.worker import Infrastructure

from libs.common.fetch_problems import HostPaused, MachineTrouble
from libs.common.objects import ObjectStore, StoreUnavailable
from libs.common.scratch import run_folder
from libs.common.together import together
from services.ingest.metrics import DedupeHits
from services.ingest.worker.decode import Decoder
from services.ingest.worker.download import Downloader
from services.ingest.worker.gathered import Gathered, Image, Job, Outcome, Prepared
from services.ingest.worker.peers import IngestPeer, IntakePeer
from services.ingest.worker.problems import ImageProblem
from services.ingest.worker.settings import IngestWorkerSettings

# What is ready within two seconds is committed together: a commit's three calls cost as much for one image.
BATCH = 16
BATCH_SECONDS = 2.0
# A store may hold the whole body of each in memory; of all galleries together.
PUTS_AT_ONCE = 4


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
        self._putting = asyncio.Semaphore(PUTS_AT_ONCE)
        self._hits = DedupeHits()

    async def gather(self, job: Job, on_progress: Callable[[float], None]) -> Gathered:
        """Bring in what is missing; `on_progress` gets the share that is there, 0 to 1.

        Every image is tried, whatever becomes of the others: another try then needs the failed ones alone.

        Raises:
            Infrastructure: a peer or the store is in trouble.
            PeerRefused: a peer refused what it was told.
        """
        kept_pauses = {url: outcome.pauses for url, outcome in job.kept.items() if outcome.pauses}
        found = Gathered(keys=await self._still_there(job), pauses=kept_pauses)
        missing = [image for image in job.gallery.images if image.url not in found.keys]
        total = len(job.gallery.images)
        # bounded: images wait on disk for their commit, not more than a batch
        ready: asyncio.Queue[Prepared | None] = asyncio.Queue(BATCH)
        with _worker_trouble(), run_folder(self._settings.scratch, "ingest") as folder:
            async with together() as group:
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
        stored = {
            url: outcome
            for url, outcome in job.kept.items()
            if outcome.result == ingest_job_pb2.IMAGE_RESULT_STORED
        }
        items = {
            o.media_key: media_pb2.MediaItem(
                key=o.media_key,
                sha256=o.sha256,
                size_bytes=o.size_bytes,
                content_type=o.content_type,
                width=o.width,
                height=o.height,
            )
            for o in stored.values()
        }
        absent = await self._intake.reserve(job.job_id, list(items.values()))
        return {url: o.media_key for url, o in stored.items() if o.media_key not in absent}

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
                    found.pause(image, paused)

        async with together() as group:
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
        absent = await self._intake.reserve(job.job_id, list(items.values()))
        self._hits.content(sum(prepared.key not in absent for prepared in batch))
        await self._put({key: files[key] for key in absent})
        await self._intake.confirm(job.job_id, absent)
        await self._ingest.record(job.run, job.job_id, [prepared.outcome() for prepared in batch])
        for prepared in batch:
            for path in (prepared.fetched.path, *(path for _, path in prepared.thumbnails)):
                path.unlink(missing_ok=True)

    async def _put(self, files: dict[str, Path]) -> None:
        waiting = iter(files.items())

        async def put() -> None:
            for key, path in waiting:
                async with self._putting:
                    await self._store.move_file(key, path)

        try:
            async with together() as group:
                for _ in range(min(PUTS_AT_ONCE, len(files))):
                    group.create_task(put())
        except StoreUnavailable as error:
            raise Infrastructure(str(error)) from error

    async def _record_problems(self, job: Job, found: Gathered) -> None:
        outcomes = [
            Outcome(
                url=image.url,
                result=ingest_job_pb2.IMAGE_RESULT_FAILED,
                reason=problem.reason,
                message=problem.message[:500],
                pauses=found.pauses.get(image.url, 0),
            )
            for image, problem in found.problems
        ]
        await self._ingest.record(job.run, job.job_id, outcomes)


async def _next_batch(ready: asyncio.Queue[Prepared | None]) -> list[Prepared]:
    """Wait for an image and take what becomes ready soon after it; empty when no more will come."""
    batch: list[Prepared] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(None) as waiting:
            while len(batch) < BATCH:
                following = await ready.get()
                if following is None:
                    ready.put_nowait(None)  # the end is met again by the next batch
                    break
                if not batch:
                    waiting.reschedule(asyncio.get_running_loop().time() + BATCH_SECONDS)
                batch.append(following)
    return batch


@contextmanager
def _worker_trouble() -> Iterator[None]:
    """Turn trouble of this machine into trouble that no job is charged for (domain.md 2.4)."""
    try:
        yield
    except MachineTrouble as error:
        raise Infrastructure(str(error)) from error
    except OSError as error:
        raise Infrastructure(f"the scratch folder failed: {error.strerror}") from error
