"""Wire the ASR worker: from settings to a loop that claims and transcribes."""

import asyncio
from collections.abc import Callable

import grpc.aio
import structlog
from frontrow.worker import Worker

from libs.common import scratch
from libs.common.client import connect
from libs.common.dial import dial
from libs.common.handlers import without_secrets
from libs.common.objects import open_store
from libs.common.surroundings import Surroundings
from services.asr.worker.engine import Engine, FasterWhisper
from services.asr.worker.engine_metrics import MeasuredEngine
from services.asr.worker.llm_settings import LlmSettings
from services.asr.worker.llm_topics import LlmTopics
from services.asr.worker.peers import AsrPeer
from services.asr.worker.run import Transcriber
from services.asr.worker.settings import AsrWorkerSettings
from services.asr.worker.speech_gate import SpeechGate
from services.asr.worker.summaries import Summarizer
from services.asr.worker.topics import LocalTopics

log = structlog.get_logger(__name__)

TASK_TYPE = "asr"


class AsrWorker:
    """Claims `asr` tasks and transcribes; a Loop. Everything it needs is opened at the start."""

    def __init__(
        self,
        settings: AsrWorkerSettings,
        common: Surroundings,
        *,
        engine: Engine | None = None,
        llm: LlmSettings | None = None,
        on_serving: Callable[[bool], None] | None = None,
    ) -> None:
        """Prepare the worker; `engine` replaces the embedded one, `llm` names a language model.

        `on_serving` is told False when what the worker stands on is down, True when it is back.
        """
        self._llm = llm or LlmSettings(base_url="")
        self._on_serving = on_serving
        self._settings = settings
        self._common = common
        self._engine: Engine = MeasuredEngine(engine or _engine(settings))
        self._summarizer: Summarizer | None = None
        self._channel: grpc.aio.Channel | None = None
        self._worker: Worker | None = None

    async def start(self) -> None:
        """Begin to claim. Remove what killed workers left in the scratch folder."""
        left = await asyncio.to_thread(scratch.sweep, self._settings.scratch_dir, "asr")
        if left:
            log.info("asr.scratch_swept", folders=left)
        self._channel = connect(
            self._common.peers.asr_address, transport=self._common.transport, actor="asr-worker"
        )
        self._summarizer = Summarizer(LocalTopics(), _llm_topics(self._llm) if self._llm.base_url else None)
        transcriber = Transcriber(
            AsrPeer(self._channel),
            open_store(self._common.store),
            self._engine,
            self._summarizer,
            self._settings,
        )
        self._worker = Worker(
            target=dial(self._common.peers.task_address, self._common.transport),
            types=[TASK_TYPE],
            handler=without_secrets(transcriber.handle),
            concurrency=self._settings.loops,
            on_serving=self._on_serving,
        )
        await self._worker.start()

    async def stop(self) -> None:
        """Give back what runs, then close everything."""
        if self._worker is not None:
            await self._worker.stop()
        await self._engine.close()
        if self._summarizer is not None:
            await self._summarizer.close()
        if self._channel is not None:
            await self._channel.close()


def _engine(settings: AsrWorkerSettings) -> Engine:
    # a server's client takes long to import
    if settings.cloud_engine.url:
        from services.asr.worker.cloud_engine import CloudEngine

        cloud = CloudEngine(settings.cloud_engine, language=settings.language, prompt=settings.initial_prompt)
        return SpeechGate(cloud)
    if settings.remote_engine.url:
        from services.asr.worker.remote_engine import RemoteEngine

        remote = RemoteEngine(
            settings.remote_engine, language=settings.language, prompt=settings.initial_prompt
        )
        return SpeechGate(remote)
    return FasterWhisper(settings)


def _llm_topics(settings: LlmSettings) -> LlmTopics:
    # its client takes long to import, and most machines have no language model
    from services.asr.worker.llm import ChatModel

    return LlmTopics(ChatModel(settings))


def build_worker(
    settings: AsrWorkerSettings, common: Surroundings, *, on_serving: Callable[[bool], None] | None = None
) -> AsrWorker:
    """Build the worker over the task service, the asr context and the object store."""
    return AsrWorker(settings, common, llm=settings.llm, on_serving=on_serving)
