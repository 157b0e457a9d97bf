"""Speech recognition by a service that takes a job and is asked for its result later.

The contract is a small neutral one (docs/speech-engines.md); an adapter before a vendor's service speaks it.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import structlog

from libs.common.redaction import quoted
from services.asr.worker.engine import EngineFailed, EngineUnreachable
from services.asr.worker.engine_http import Json, SpeechServer, Trouble, sound_of
from services.asr.worker.engine_settings import CloudEngineSettings
from services.asr.worker.remote_engine import language_of, segments
from services.asr.worker.speech import Segment, Span

log = structlog.get_logger(__name__)

_LONGEST_JOB_ID = 512
_RUNNING, _DONE, _FAILED = frozenset({"queued", "running"}), "succeeded", "failed"


class CloudEngine:
    """Submits each chunk as a job and polls it: 360 times every 10 s unless set otherwise.

    A submission carries an `Idempotency-Key` made of the sound and all that was asked for, so that a repeat,
    also one of a later run, finds the job of the first instead of paying for another.
    """

    def __init__(self, settings: CloudEngineSettings, *, language: str = "", prompt: str = "") -> None:
        self._settings = settings
        self._server = SpeechServer(settings, language=language, prompt=prompt)

    async def name(self) -> str:
        """See Engine."""
        return f"cloud/{self._settings.model}"[:128]

    async def transcribe(
        self, wav: Path, span: Span, on_position: Callable[[int], None]
    ) -> tuple[str, list[Segment]]:
        """See Engine; the position is what the service says of its progress, and moves on with its polls.

        A job that is known to be alive must not look stalled, though its service may say nothing for as long
        as the stall limit (domain.md 1.6): then the share of its polls that are used up counts.
        A job is left alone when this is cancelled: most often another run will ask for its result soon.
        """
        sound = await asyncio.to_thread(sound_of, wav, span)
        job_id = await self._submit(sound)
        result = await self._result(job_id, span, on_position)
        found = list(segments(result, span))
        on_position(span.end_ms)
        return language_of(result), found

    async def close(self) -> None:
        """See Engine."""
        await self._server.close()

    async def _submit(self, sound: bytes) -> str:
        asked = "\0".join(self._server.asked.values()).encode()
        key = hashlib.sha256(sound + asked).hexdigest()
        answer = await self._server.send("/jobs", sound, headers={"Idempotency-Key": key})
        job_id = answer.get("id")
        if not isinstance(job_id, str) or not 0 < len(job_id) <= _LONGEST_JOB_ID:
            raise EngineFailed("the speech service took the job but gave it no id")
        return job_id

    async def _result(self, job_id: str, span: Span, on_position: Callable[[int], None]) -> Json:
        """Poll until the job has ended.

        Raises:
            EngineFailed: it failed, made no sense, or had not ended after all polls.
            EngineUnreachable: several polls in a row found the service away, or it lets nobody in.
        """
        missed, share = 0, 0.0
        for poll in range(1, self._settings.polls + 1):
            await asyncio.sleep(self._settings.poll_seconds)
            try:
                job = await self._server.call("GET", f"/jobs/{quote(job_id, safe='')}")
            except Trouble as trouble:
                missed += 1
                log.warning("asr.engine_poll_failed", missed=missed, error=str(trouble)[:300])
                if missed >= self._settings.missed_polls:
                    # the job goes on meanwhile, and the next run's submission finds it
                    raise EngineUnreachable(f"the speech service is away: {trouble}") from trouble
                continue
            missed = 0
            result = _ended(job)
            if result is not None:
                return result
            share = max(share, _share(job), poll / (self._settings.polls + 1))
            on_position(span.start_ms + int(share * (span.end_ms - span.start_ms)))
        await self._withdraw(job_id)
        raise EngineFailed(f"the speech service had no result after {self._settings.polls} polls")

    async def _withdraw(self, job_id: str) -> None:
        """Tell the service that nobody wants the job any more, which frees its key for another try."""
        with contextlib.suppress(Trouble, EngineFailed, EngineUnreachable, TimeoutError):
            async with asyncio.timeout(self._settings.withdraw_seconds):
                await self._server.call("DELETE", f"/jobs/{quote(job_id, safe='')}")


def _ended(job: Json) -> Json | None:
    """Return the result of a job that has succeeded; None while it runs.

    Raises:
        EngineFailed: it failed, or what came makes no sense.
    """
    status = job.get("status")
    if status in _RUNNING:
        return None
    if status == _FAILED:
        said = quoted(str(job.get("error") or "no reason given"), 500)
        raise EngineFailed(f"the speech service failed: {said}")
    result = job.get("result")
    if status != _DONE or not isinstance(result, dict):
        raise EngineFailed(f"the speech service's answer makes no sense: status {str(status)[:50]!r}")
    return result


def _share(job: Json) -> float:
    """Return how much of a running job is done, 0 to 1; 0 when the service doesn't say."""
    progress = job.get("progress")
    # NaN is greater than nothing, and an integer may be too great for a float
    return float(min(progress, 1.0)) if isinstance(progress, int | float) and progress > 0 else 0.0
