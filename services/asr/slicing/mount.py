"""Wire the slicing worker: the one seam between its settings and a running worker."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import Protocol

import grpc
import grpc.aio
import structlog
from frontrow.worker import Handler, Outcome, Run, Worker

from libs.common import scratch
from libs.common.client import connect
from libs.common.dial import dial
from libs.common.loops import Loop
from libs.common.objects import open_store
from libs.common.settings import PeerSettings, StoreSettings, TransportSettings
from services.asr.slicing.peers import SlicingPeer
from services.asr.slicing.selection import Rules
from services.asr.slicing.settings import SlicingWorkerSettings

log = structlog.get_logger(__name__)

TASK_TYPE = "ai_slice"


class Surroundings(Protocol):
    """What the worker stands on; it has no database."""

    @property
    def transport(self) -> TransportSettings:
        """How calls travel."""

    @property
    def peers(self) -> PeerSettings:
        """Where the task and the asr service are."""

    @property
    def store(self) -> StoreSettings:
        """Where recordings and clips are kept."""


OnServing = Callable[[bool], None]
"""Told False when infrastructure counts as down, and True when it is back (domain.md 2.4)."""


def build_worker(
    settings: SlicingWorkerSettings, common: Surroundings, on_serving: OnServing | None = None
) -> Loop:
    """Build the worker; nothing runs and nothing is dialled before its start."""
    return SlicingWorker(settings, common, on_serving)


class SlicingWorker:
    """The slicing worker with the channel that it owns."""

    def __init__(
        self, settings: SlicingWorkerSettings, common: Surroundings, on_serving: OnServing | None
    ) -> None:
        self._settings = settings
        self._common = common
        self._on_serving = on_serving
        self._channel: grpc.aio.Channel | None = None
        self._worker: Worker | None = None
        self._handler: Handler | None = None

    async def start(self) -> None:
        """Open the channels and begin to claim. Remove what killed workers left in the scratch folder."""
        settings, common = self._settings, self._common
        left = await asyncio.to_thread(scratch.sweep, settings.scratch, "slicing")
        if left:
            log.info("slicing.scratch_swept", folders=left)
        self._channel = connect(common.peers.asr_address, transport=common.transport, actor="slicing-worker")
        self._worker = Worker(
            target=dial(common.peers.task_address, common.transport),
            types=[TASK_TYPE],
            handler=self._run,
            concurrency=settings.concurrency,
            run_timeout_seconds=settings.run_timeout_seconds,
            on_serving=self._on_serving,
        )
        await self._worker.start()

    async def _run(self, run: Run) -> Outcome:
        """Hand a run to its handler, which is made at the first one."""
        if self._channel is None:
            raise RuntimeError("the worker runs only between start and stop")
        if self._handler is None:
            # a second of dictionaries and codecs, which no start has to wait for
            worker = await asyncio.to_thread(importlib.import_module, "services.asr.slicing.worker")
            peer, store = SlicingPeer(self._channel), open_store(self._common.store)
            self._handler = worker.Slicing(peer, store, _rules(self._settings), self._settings.scratch)
        return await self._handler(run)

    async def stop(self) -> None:
        """Stop claiming, give back what runs, and close the channels. Safe to call twice."""
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.stop()
        channel, self._channel, self._handler = self._channel, None, None
        if channel is not None:
            await channel.close()


def _rules(settings: SlicingWorkerSettings) -> Rules:
    return Rules(
        merge_gap_ms=settings.merge_gap_ms,
        lead_ms=settings.lead_ms,
        tail_ms=settings.tail_ms,
        shortest_ms=settings.shortest_ms,
        longest_piece_ms=settings.longest_piece_ms,
    )
