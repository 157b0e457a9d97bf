"""Wire the slicing worker: the one seam between its settings and a running worker."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio
import structlog
from frontrow.worker import Handler, Outcome, Run, Worker

from libs.common import scratch
from libs.common.client import connect
from libs.common.dial import dial
from libs.common.handlers import without_secrets
from libs.common.loops import Loop
from libs.common.objects import ObjectStore, open_store
from libs.common.surroundings import Surroundings
from services.asr.slicing.peers import SlicingPeer, TaskUrls
from services.asr.slicing.selection import Rules
from services.asr.slicing.settings import SlicingWorkerSettings
from services.asr.worker.llm_questions import Model
from services.asr.worker.llm_settings import LlmSettings, permit_key

log = structlog.get_logger(__name__)

TASK_TYPES = ("ai_slice", "ai_slice_draft", "draft")

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
        self._urls_channel: grpc.aio.Channel | None = None
        self._store: ObjectStore | None = None
        self._model: Model | None = None
        self._handler: Handler | None = None

    async def start(self) -> None:
        """Open the channels and begin to claim. Remove what killed workers left in the scratch folder."""
        settings, common = self._settings, self._common
        # what the handler opens at its first run must be refused now, not then
        permit_key(settings.llm)
        self._store = open_store(common.store)
        left = await asyncio.to_thread(scratch.sweep, settings.scratch, "slicing")
        if left:
            log.info("slicing.scratch_swept", folders=left)
        self._channel = connect(common.peers.asr_address, transport=common.transport, actor="slicing-worker")
        self._urls_channel = connect(
            common.peers.task_address, transport=common.transport, actor="slicing-worker"
        )
        self._worker = Worker(
            target=dial(common.peers.task_address, common.transport),
            types=TASK_TYPES,
            handler=without_secrets(self._run),
            concurrency=settings.concurrency,
            run_timeout_seconds=settings.run_timeout_seconds,
            on_serving=self._on_serving,
        )
        await self._worker.start()

    async def _run(self, run: Run) -> Outcome:
        """Hand a run to its handler, which is made at the first one."""
        if self._channel is None or self._urls_channel is None:
            raise RuntimeError("the worker runs only between start and stop")
        if self._handler is None:
            # a second of dictionaries and codecs, which no start has to wait for
            worker = await asyncio.to_thread(importlib.import_module, "services.asr.slicing.worker")
            self._handler = self._build(worker, self._channel, self._urls_channel)
        return await self._handler(run)

    async def stop(self) -> None:
        """Stop claiming, give back what runs, and close the channels. Safe to call twice."""
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.stop()
        if self._model is not None:
            await self._model.close()
        for channel in (self._channel, self._urls_channel):
            if channel is not None:
                await channel.close()
        self._channel = self._urls_channel = self._handler = self._model = None

    def _build(self, worker: Any, asr: grpc.aio.Channel, task: grpc.aio.Channel) -> Handler:
        settings, common = self._settings, self._common
        if self._store is None:
            raise RuntimeError("the worker runs only between start and stop")
        self._model = _model(settings.llm)
        place = worker.Place(self._store, common.store.object_store, settings.scratch)
        chooser = worker.Chooser(self._store, _rules(settings), self._model)
        handler: Handler = worker.Slicing(SlicingPeer(asr), TaskUrls(task), chooser, place)
        return handler


def _model(settings: LlmSettings) -> Model | None:
    """Build the language model; None when no URL names one."""
    if not settings.base_url:
        return None
    from services.asr.worker.llm import ChatModel

    return ChatModel(settings)


def _rules(settings: SlicingWorkerSettings) -> Rules:
    return Rules(
        merge_gap_ms=settings.merge_gap_ms,
        lead_ms=settings.lead_ms,
        tail_ms=settings.tail_ms,
        shortest_ms=settings.shortest_ms,
        longest_piece_ms=settings.longest_piece_ms,
    )
