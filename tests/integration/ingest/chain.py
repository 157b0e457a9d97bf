"""The whole chain for tests: real servers of task, review and ingest, workers, an image site, a store."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from frontrow.ingest.v1 import gallery_pb2, ingest_job_pb2, ingest_service_pb2
from frontrow.review.v1 import draft_pb2, draft_service_pb2, draft_service_pb2_grpc, intake_service_pb2_grpc
from frontrow.task.v1 import task_pb2, task_service_pb2, task_service_pb2_grpc

from libs.common.client import connect
from libs.common.objects import ObjectInfo, ObjectStore, StoreUnavailable, open_url
from libs.common.settings import CommonSettings
from libs.common.testing import eventually, serving
from services.ingest.mount import mount as mount_ingest
from services.ingest.worker.decode import Decoder
from services.ingest.worker.mount import IngestWorker
from services.ingest.worker.settings import IngestWorkerSettings
from services.review.mount import mount as mount_review
from services.review.settings import ReviewSettings
from services.task.mount import mount as mount_task
from services.task.settings import TaskSettings
from tests.integration.ingest.conftest import Ingest, common_settings, gallery, ingest_settings
from tests.integration.ingest.site import Site, image_site

ENDED = {ingest_job_pb2.INGEST_JOB_STATUS_DONE, ingest_job_pb2.INGEST_JOB_STATUS_FAILED}


def task_settings(lease_seconds: float) -> TaskSettings:
    """Return settings of a task server that looks often and hardly pauses between tries."""
    return TaskSettings(
        lease_seconds=lease_seconds,
        sweep_interval_seconds=0.2,
        poll_seconds=0.5,
        due_interval_seconds=0.1,
        retry_base_seconds=0.05,
        retry_longest_seconds=0.1,
    )


def worker_settings(**changes: object) -> IngestWorkerSettings:
    """Return the settings of a worker that may fetch from this machine."""
    values: dict[str, object] = {
        "allow_loopback": True,
        "decoders": 1,
        "thumbnail_widths": (24,),
        "read_timeout_seconds": 2,
        "total_timeout_seconds": 10,
    }
    return IngestWorkerSettings(**(values | changes))  # type: ignore[arg-type]


class CountingStore:
    """A store that counts its calls by method and can be down."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()
        self.down = False

    def _count(self, method: str) -> None:
        self.calls[method] += 1
        if self.down:
            raise StoreUnavailable("the store is down for a test")

    async def put_bytes(self, key: str, data: bytes) -> None:
        self._count("put")
        await self._store.put_bytes(key, data)

    async def put_file(self, key: str, path: Path) -> None:
        self._count("put")
        await self._store.put_file(key, path)

    async def move_file(self, key: str, path: Path) -> None:
        self._count("put")
        await self._store.move_file(key, path)

    async def put_stream(self, key: str, chunks: AsyncIterator[bytes]) -> int:
        self._count("put")
        return await self._store.put_stream(key, chunks)

    async def get_bytes(self, key: str) -> bytes:
        self._count("get")
        return await self._store.get_bytes(key)

    def stream(self, key: str, *, start: int = 0, chunk_bytes: int = 1 << 18) -> AsyncIterator[bytes]:
        self._count("get")
        return self._store.stream(key, start=start, chunk_bytes=chunk_bytes)

    async def head(self, key: str) -> ObjectInfo | None:
        self._count("head")
        return await self._store.head(key)

    async def delete(self, key: str) -> None:
        self._count("delete")
        await self._store.delete(key)

    def list(self, prefix: str = "") -> AsyncIterator[str]:
        self._count("list")
        return self._store.list(prefix)

    def local_path(self, key: str) -> AbstractAsyncContextManager[Path]:
        self._count("get")
        return self._store.local_path(key)

    async def check(self) -> None:
        self._count("check")
        await self._store.check()

    async def sweep_abandoned(self, older_than_seconds: float = 86_400.0) -> int:
        return await self._store.sweep_abandoned(older_than_seconds)


@dataclass
class Chain:
    """Everything a test of the chain touches."""

    common: CommonSettings
    ingest: Ingest
    site: Site
    store: CountingStore
    folder: Path
    stack: AsyncExitStack
    decoder: Decoder

    def __post_init__(self) -> None:
        to_task, to_review = (
            connect(self.common.peers.task_address),
            connect(self.common.peers.review_address),
        )
        self.stack.push_async_callback(to_task.close)
        self.stack.push_async_callback(to_review.close)
        self.stack.push_async_callback(self.ingest.channel.close)
        self.tasks = task_service_pb2_grpc.TaskServiceStub(to_task)
        self.drafts = draft_service_pb2_grpc.DraftServiceStub(to_review)
        self.intake = intake_service_pb2_grpc.IntakeServiceStub(to_review)

    def worker_settings(self, **changes: object) -> IngestWorkerSettings:
        """Return the settings of a worker that may fetch from the site."""
        return worker_settings(scratch=self.folder / "scratch", **changes)

    async def work(self, **changes: object) -> IngestWorker:
        """Start a worker; it stops with the chain."""
        decoder = None if "thumbnail_widths" in changes else self.decoder
        settings = self.worker_settings(**changes)
        worker = IngestWorker(settings, self.common, store=self.store, decoder=decoder)
        await worker.start()
        self.stack.push_async_callback(worker.stop)
        return worker

    async def submit(self, *urls: str, url: str, **changes: object) -> str:
        """Submit a runway gallery and return its job's id."""
        return await self.submit_gallery(gallery(*urls, url=url, **changes))

    async def submit_gallery(self, message: gallery_pb2.Gallery) -> str:
        """Submit a gallery and return its job's id."""
        return (await self.ingest.call(ingest_service_pb2.SubmitGalleryRequest(gallery=message))).job_id

    async def job(self, job_id: str) -> ingest_job_pb2.IngestJob:
        """Read a job."""
        request = ingest_service_pb2.GetIngestJobRequest(job_id=job_id)
        return (await self.ingest.stub.GetIngestJob(request)).job

    async def ended(self, job_id: str, timeout_seconds: float = 20.0) -> ingest_job_pb2.IngestJob:
        """Wait till a job has ended, and its task too, and return the job."""

        async def check() -> ingest_job_pb2.IngestJob | None:
            job = await self.job(job_id)
            return job if job.status in ENDED else None

        job = await eventually(check, timeout_seconds)
        assert job is not None

        async def task_ended() -> bool:
            return (await self.task(job)).status in {
                task_pb2.TASK_STATUS_COMPLETED,
                task_pb2.TASK_STATUS_FAILED,
                task_pb2.TASK_STATUS_CANCELLED,
            }

        await eventually(task_ended, timeout_seconds)
        return job

    async def task(self, job: ingest_job_pb2.IngestJob) -> task_pb2.Task:
        """Read the task of a job."""
        return (await self.tasks.GetTask(task_service_pb2.GetTaskRequest(task_id=job.task_id))).task

    async def draft(
        self, draft_id: str, kind: draft_pb2.GalleryKind.ValueType = draft_pb2.GALLERY_KIND_RUNWAY
    ) -> draft_pb2.Draft:
        """Read a draft."""
        request = draft_service_pb2.GetDraftRequest(kind=kind, draft_id=draft_id)
        return (await self.drafts.GetDraft(request)).draft

    async def drafts_of(self, url: str) -> list[draft_pb2.Draft]:
        """Return the runway drafts of an article, deleted ones included."""
        request = draft_service_pb2.ListDraftsRequest(
            kind=draft_pb2.GALLERY_KIND_RUNWAY, show_deleted=True, page_size=1000
        )
        return [d for d in (await self.drafts.ListDrafts(request)).drafts if d.source_url == url]

    async def approve(
        self, draft_id: str, kind: draft_pb2.GalleryKind.ValueType = draft_pb2.GALLERY_KIND_RUNWAY
    ) -> str:
        """Approve a draft and return the official row's id."""
        etag = (await self.draft(draft_id, kind)).etag
        request = draft_service_pb2.ApproveDraftRequest(kind=kind, draft_id=draft_id, etag=etag)
        return (await self.drafts.ApproveDraft(request)).official_id


@asynccontextmanager
async def running_servers(
    database_url: str, store: str, settings: TaskSettings
) -> AsyncIterator[CommonSettings]:
    """Run task, review and ingest over one database and one store, each on a port of its own.

    Yields where they are.
    """
    async with AsyncExitStack() as stack:
        peers: dict[str, str] = {}
        for name, mount in (
            ("task", partial(mount_task, settings)),
            ("review", partial(mount_review, ReviewSettings())),
            ("ingest", partial(mount_ingest, ingest_settings())),
        ):
            mounted = await mount(common_settings(database_url, store, **peers))
            peers[f"{name}_address"] = await stack.enter_async_context(serving(name, mounted))
        yield common_settings(database_url, store, **peers)


@asynccontextmanager
async def running_chain(
    common: CommonSettings, folder: Path, decoder: Decoder, name: str
) -> AsyncIterator[Chain]:
    """Give a test its own spider, image site and workers over running servers."""
    async with AsyncExitStack() as stack:
        ingest = Ingest(common.peers.ingest_address)
        await ingest.make_spider(name[-64:])
        yield Chain(
            common=common,
            ingest=ingest,
            site=await stack.enter_async_context(image_site()),
            store=CountingStore(open_url(common.store.object_store)),
            folder=folder,
            stack=stack,
            decoder=decoder,
        )


async def all_of(*awaitables: object) -> list[ingest_job_pb2.IngestJob]:
    """Await several jobs at once."""
    return list(await asyncio.gather(*awaitables))  # type: ignore[call-overload, no-any-return]


@asynccontextmanager
async def worker_process(chain: Chain, **settings: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `python -m services.ingest.worker` against the chain; killed at the end if it still runs."""
    peers = chain.common.peers
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "FRONTROW_TASK_ADDRESS": peers.task_address,
        "FRONTROW_REVIEW_ADDRESS": peers.review_address,
        "FRONTROW_INGEST_ADDRESS": peers.ingest_address,
        "FRONTROW_OBJECT_STORE": chain.common.store.object_store,
        "FRONTROW_INGEST_WORKER_ALLOW_LOOPBACK": "true",
        "FRONTROW_INGEST_WORKER_LISTEN": "127.0.0.1:0",
        "FRONTROW_INGEST_WORKER_DECODERS": "1",
        "FRONTROW_INGEST_WORKER_SCRATCH": str(chain.folder / "scratch"),
        **{f"FRONTROW_INGEST_WORKER_{name.upper()}": value for name, value in settings.items()},
    }
    argv = [sys.executable, "-m", "services.ingest.worker"]
    process = await asyncio.create_subprocess_exec(*argv, env=environment)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
