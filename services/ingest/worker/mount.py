"""Wire the ingest worker: from settings to a loop that claims and works jobs off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

import structlog
from frontrow.worker import Worker

from libs.common import scratch
from libs.common.client import connect
from libs.common.dial import dial
from libs.common.handlers import without_secrets
from libs.common.loops import Periodic
from libs.common.objects import ObjectStore, StoreUnavailable, open_store
from libs.common.surroundings import Surroundings
from services.ingest.worker.decode import Decoder
from services.ingest.worker.download import Downloader
from services.ingest.worker.hosts import HostPauses
from services.ingest.worker.images import GalleryImages
from services.ingest.worker.peers import IngestPeer, IntakePeer
from services.ingest.worker.pipeline import IngestHandler
from services.ingest.worker.settings import IngestWorkerSettings

log = structlog.get_logger(__name__)

TASK_TYPE = "ingest"
# What is swept from the store is a day old, what is swept from the scratch folder belongs to nobody alive.
SWEEP_SECONDS = 6 * 3600.0

# Calls that change nothing when they are made twice.
_REPEATABLE = (
    "frontrow.review.v1.IntakeService/CheckSource",
    "frontrow.review.v1.IntakeService/FindOfficial",
)


class IngestWorker:
    """Claims `ingest` tasks and works their jobs off; a Loop. What it needs is opened at the start."""

    def __init__(
        self,
        settings: IngestWorkerSettings,
        common: Surroundings,
        *,
        store: ObjectStore | None = None,
        decoder: Decoder | None = None,
        on_serving: Callable[[bool], None] | None = None,
    ) -> None:
        """Prepare the worker; `store` replaces the one of the settings, `decoder` is shared with others.

        `on_serving` hears False when what the worker stands on counts as down, and True when it is back.
        """
        self._settings = settings
        self._common = common
        self._store = store or open_store(common.store)
        self._decoder = decoder
        self._on_serving = on_serving
        self._stack = AsyncExitStack()
        self._worker: Worker | None = None

    async def start(self) -> None:
        """Begin to claim, and to remove what killed workers left in the scratch folder and in the store."""
        sweep = Periodic("sweep_abandoned", SWEEP_SECONDS, self._sweep)
        await sweep.start()
        self._stack.push_async_callback(sweep.stop)
        peers, transport = self._common.peers, self._common.transport
        to_ingest = connect(peers.ingest_address, transport=transport, actor="ingest-worker")
        self._stack.push_async_callback(to_ingest.close)
        to_review = connect(
            peers.review_address, transport=transport, actor="ingest-worker", idempotent=_REPEATABLE
        )
        self._stack.push_async_callback(to_review.close)
        pauses = HostPauses(self._settings.longest_host_wait_seconds)
        ingest, intake = IngestPeer(to_ingest, pauses), IntakePeer(to_review)
        downloader = Downloader(self._settings, pauses, tell_pause=ingest.pause_host)
        decoder = self._decoder
        if decoder is None:
            decoder = Decoder(self._settings)
            self._stack.push_async_callback(decoder.close)
        images = GalleryImages(
            self._settings,
            ingest=ingest,
            intake=intake,
            store=self._store,
            downloader=await self._stack.enter_async_context(downloader),
            decoder=decoder,
        )
        self._worker = Worker(
            target=dial(self._common.peers.task_address, self._common.transport),
            types=[TASK_TYPE],
            handler=without_secrets(
                IngestHandler(ingest, intake, images, free_host_pauses=self._settings.free_host_pauses)
            ),
            concurrency=self._settings.concurrency,
            run_timeout_seconds=self._settings.run_timeout_seconds,
            on_serving=self._on_serving,
        )
        await self._worker.start()

    async def _sweep(self) -> None:
        folders = await asyncio.to_thread(scratch.sweep, self._settings.scratch, "ingest")
        try:
            objects = await self._store.sweep_abandoned()
        except StoreUnavailable as error:  # jobs wait for the store; a worker starts without it
            log.warning("ingest.store_not_swept", error=str(error))
            objects = 0
        if folders or objects:
            log.info("ingest.swept", folders=folders, objects=objects)

    async def stop(self) -> None:
        """Give back what runs, then close everything."""
        if self._worker is not None:
            await self._worker.stop()
            self._worker = None
        await self._stack.aclose()


def build_worker(
    settings: IngestWorkerSettings, common: Surroundings, *, on_serving: Callable[[bool], None] | None = None
) -> IngestWorker:
    """Build the worker over the task service, the two contexts it speaks to, and the object store."""
    return IngestWorker(settings, common, on_serving=on_serving)
