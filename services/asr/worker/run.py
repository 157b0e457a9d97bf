"""One run of an `asr` task, from the begin to the stored result (domain.md 2.5)."""

import asyncio
from collections import Counter
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from frontrow.worker import Completed, Failed, Infrastructure, Outcome, Released, Run

from libs.common import machine
from libs.common.fetch_problems import HostPaused
from libs.common.loops import uninterrupted
from libs.common.objects import ObjectMissing, ObjectStore
from libs.common.scratch import run_folder
from services.asr.states import CANCELLED_REASON
from services.asr.stored_names import canonical_key
from services.asr.worker import failures
from services.asr.worker.debug_record import DebugRecord
from services.asr.worker.engine import Engine
from services.asr.worker.failures import MediaLost, NoSpeech, RunTimeout
from services.asr.worker.paragraphs import paragraphs
from services.asr.worker.peers import AsrPeer, AsrUnreachable, Begun, NotWanted, Result, RunLost
from services.asr.worker.prepare import Prepared, prepare
from services.asr.worker.progress import TRANSCRIBING_FROM, Progress
from services.asr.worker.settings import AsrWorkerSettings
from services.asr.worker.speech import Part
from services.asr.worker.summaries import Summarizer
from services.asr.worker.transcribe import transcribe

if TYPE_CHECKING:
    from services.asr.worker.fetch import Fetched

log = structlog.get_logger(__name__)

# Of the first percents, when the recording is fetched from the web.
_FETCH_SHARE = 0.6


class Transcriber:
    """The handler of `asr` tasks."""

    def __init__(
        self,
        asr: AsrPeer,
        store: ObjectStore,
        engine: Engine,
        summarizer: Summarizer,
        settings: AsrWorkerSettings,
    ) -> None:
        self._asr = asr
        self._store = store
        self._engine = engine
        self._summarizer = summarizer
        self._settings = settings

    @property
    def run_timeout_seconds(self) -> float:
        """The hard limit of one run (domain.md 2.5)."""
        return self._settings.run_timeout_seconds

    async def handle(self, run: Run) -> Outcome:
        """Begin the run and bring it to its end, which is an outcome or an exception of the worker's."""
        material_id = str(run.payload.get("material_id", ""))
        if not material_id:
            return Failed("the task's payload has no material_id")
        try:
            begun = await self._asr.begin(material_id, run.task_id, run.version)
        except NotWanted as error:
            return Failed(str(error))
        except RunLost:
            return Released()  # refused by the task service as well, if it knows that the lease is lost
        except AsrUnreachable as error:
            raise Infrastructure(str(error)) from error
        if begun.already_completed:
            return Completed()
        return await _Transcription(self, run, material_id, begun).outcome()

    async def work(self, run: "_Transcription") -> None:
        """Do the run's steps; see `_Transcription` for what happens when one fails."""
        with run_folder(self._settings.scratch_dir, "asr") as folder:
            prepared = await self._prepare(run, folder)
            kept = (
                await self._asr.parts(run.material_id, run.begun.asr_version)
                if run.begun.part_indices
                else {}
            )
            run.progress.report(TRANSCRIBING_FROM)
            async with self._summarizer.listening() as hear:
                parts = await transcribe(
                    prepared.wav,
                    kept,
                    self._engine,
                    self._settings,
                    save=lambda part: self._asr.save_part(run.material_id, run.begun.asr_version, part),
                    on_part=lambda part: hear(part.utterances),
                    on_position=run.progress.position,
                )
        await run.record.write("002_asr_raw", _raw_record(parts, kept))
        if not any(part.utterances for part in parts):
            raise NoSpeech("nobody speaks in this recording; there is nothing to transcribe")
        result = await self._post_process(run, prepared, parts)
        # a report under way would reach a completed material, and be refused as if the run were lost
        await run.progress.stop()
        await uninterrupted(self._asr.complete(run.material_id, run.begun.asr_version, result))

    async def _prepare(self, run: "_Transcription", folder: Path) -> Prepared:
        fetched = await self._fetch(run, folder)
        recording: AbstractAsyncContextManager[Path] = (
            nullcontext(fetched.path) if fetched else self._store.local_path(run.begun.media_key)
        )
        rest = TRANSCRIBING_FROM * (1 - _FETCH_SHARE if fetched else 1)
        try:
            prepared = await prepare(
                self._store,
                recording,
                canonical_key(run.material_id, run.begun.asr_version),
                folder,
                on_share=lambda share: run.progress.report(int(TRANSCRIBING_FROM - rest + share * rest)),
            )
        except ObjectMissing as error:
            raise MediaLost("the stored recording is gone; upload it again as a new material") from error
        content = {name: getattr(prepared, name) for name in Prepared.__dataclass_fields__}
        more = {"kept_parts": list(run.begun.part_indices), "fetched": fetched}
        await run.record.write("001_prepare", {**content, **more})
        return prepared

    async def _fetch(self, run: "_Transcription", folder: Path) -> "Fetched | None":
        """Fetch the recording when it isn't stored yet; None when it is."""
        if run.begun.fetch is None:
            return None
        # its HTTP client takes long to import, and most recordings are uploaded
        from services.asr.worker.fetch import Fetcher, RunOfMaterial

        fetcher = Fetcher(self._settings.fetch, self._store, self._asr)
        share = _FETCH_SHARE * TRANSCRIBING_FROM
        return await fetcher.fetch(
            RunOfMaterial(run.material_id, run.begun.asr_version),
            run.begun.fetch,
            folder,
            on_share=lambda done: run.progress.report(int(done * share)),
        )

    async def _post_process(self, run: "_Transcription", prepared: Prepared, parts: list[Part]) -> Result:
        spoken = [utterance for part in parts for utterance in part.utterances]
        summaries = await self._summarizer.summarize(spoken, run.progress.summarized)
        topics, source = summaries.topics, summaries.source
        await run.record.write("003_llm_summaries", asdict(summaries))
        made = paragraphs(spoken, {topic.first for topic in topics})
        await run.record.write("004_llm_paragraphs", {"source": "local", "paragraphs": made})
        languages = Counter(part.language for part in parts if part.utterances)
        result = Result(
            duration_ms=prepared.duration_ms,
            width=prepared.width,
            height=prepared.height,
            canonical_key=prepared.canonical_key,
            engine=parts[0].engine,
            language=languages.most_common(1)[0][0],
            summaries_source=source,
            missing_seconds=prepared.missing_ms / 1000,
            audio_tracks=prepared.audio_tracks,
            audio_order=prepared.audio_order,
            utterances=spoken,
            paragraphs=made,
            topics=topics,
        )
        counts = {"utterances": len(spoken), "paragraphs": len(made), "topics": len(topics)}
        await run.record.write("005_result", {**counts, "language": result.language, "source": source})
        return result

    async def fail(
        self, run: "_Transcription", error: BaseException, reason: str, *, retryable: bool
    ) -> None:
        """Write a failure to the row and to the debug record; neither may hide the failure itself."""
        percent = run.progress.percent
        log.warning("asr.run_failed", material_id=run.material_id, reason=reason, retryable=retryable)
        try:
            await self._asr.fail(
                run.material_id,
                run.begun.asr_version,
                reason=reason,
                message=machine.without_paths(error),
                progress=percent,
                retryable=retryable,
            )
        except (RunLost, NotWanted, AsrUnreachable) as refused:
            # the follower of tasks brings the row to the same end
            log.warning("asr.failure_not_written", material_id=run.material_id, error=str(refused)[:300])
        await run.record.write_failure(error, reason=reason, progress=percent, retryable=retryable)

    def record_of(self, material_id: str, asr_version: int) -> DebugRecord:
        """Open the debug record of a run."""
        return DebugRecord(self._store, material_id, asr_version, enabled=self._settings.debug_record)

    async def send_progress(self, material_id: str, asr_version: int, percent: int) -> None:
        """Report progress to the asr context."""
        await self._asr.progress(material_id, asr_version, percent)


class _Transcription:
    """The state of one run, and the one path by which it fails."""

    def __init__(self, transcriber: Transcriber, run: Run, material_id: str, begun: Begun) -> None:
        self._transcriber = transcriber
        self._run = run
        self._lost: Exception | None = None
        self._working: asyncio.Task[None] | None = None
        self.material_id = material_id
        self.begun = begun
        self.record = transcriber.record_of(material_id, begun.asr_version)
        self.progress = Progress(
            lambda percent: transcriber.send_progress(material_id, begun.asr_version, percent),
            run.progress,
            self._stop,
        )

    def _stop(self, why: Exception) -> None:
        self._lost = why
        if self._working is not None:
            self._working.cancel()

    async def outcome(self) -> Outcome:
        """Do the work and tell how the run ended.

        Raises:
            Infrastructure: its surroundings are at fault; no try is charged.
        """
        seconds = self._transcriber.run_timeout_seconds
        try:
            async with asyncio.timeout(seconds) as limit, self.progress:
                await self._work()
        except asyncio.CancelledError as error:
            if self._run.cancel_requested:
                await uninterrupted(self._fail(error, CANCELLED_REASON, retryable=False))
            raise
        except Exception as error:  # noqa: BLE001 - the one failure path; it is written down and told
            if isinstance(error, TimeoutError) and limit.expired():
                error = RunTimeout(f"the run took longer than {seconds:g} seconds and was stopped")
            return await self._failed(error)
        return Completed()

    async def _failed(self, error: Exception) -> Outcome:
        """Write a failure down, and return what the task is told of it."""
        if isinstance(error, RunLost):
            return Released()
        if isinstance(error, NotWanted):
            return Failed(str(error))
        reason = failures.reason_of(error)
        permanent = failures.is_permanent(error)
        await uninterrupted(self._fail(error, reason, retryable=not permanent))
        if isinstance(error, HostPaused):
            return Released(error.seconds)
        if failures.is_infrastructure(error):
            raise Infrastructure(f"{reason}: {machine.without_paths(error)}") from error
        return Failed(f"{reason}: {machine.without_paths(error)}", retryable=not permanent)

    async def _work(self) -> None:
        """Run the steps in a task of their own, which a lost lease cancels at once."""
        self._working = asyncio.create_task(self._transcriber.work(self), name=f"asr:{self.material_id}")
        try:
            await self._working
        except asyncio.CancelledError:
            if self._lost is not None:
                raise self._lost from None
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)
            raise

    async def _fail(self, error: BaseException, reason: str, *, retryable: bool) -> None:
        if isinstance(error, asyncio.CancelledError):
            error = RuntimeError("the transcription was cancelled on request")
        await self._transcriber.fail(self, error, reason, retryable=retryable)


def _raw_record(parts: list[Part], kept: object) -> dict[str, object]:
    return {"parts": parts, "kept": sorted(kept) if isinstance(kept, dict) else []}
