"""Tell the task and the material how far a run has come: it only rises, and never holds the run up."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from services.asr.worker.peers import NotWanted, RunLost

log = structlog.get_logger(__name__)

TRANSCRIBING_FROM, TRANSCRIBING_TO = 5, 95
# The rest is for what comes behind.
_SUMMARIZING_TO = 99


class Progress:
    """The progress of one run (domain.md 2.5): 5 to 95 while the engine works.

    `report` may be called from any step and in any order; lower values are dropped. The task is told each
    rise, also one by less than a per cent: what goes on slowly isn't stuck (domain.md 1.6). The material is
    told whole per cents, one at a time in the background, the newest only. A failed report is a warning; a
    refused one stops the run.
    """

    def __init__(
        self,
        send: Callable[[int], Awaitable[None]],
        to_task: Callable[[float], None],
        on_lost: Callable[[Exception], None],
    ) -> None:
        self._send = send
        self._to_task = to_task
        self._on_lost = on_lost
        self._risen = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None
        self._reported = 0.0
        self.percent = 0

    def report(self, percent: float) -> None:
        """Report progress in percent."""
        if percent <= self._reported:
            return
        self._reported = percent = min(percent, 100)
        self._to_task(percent)
        if percent >= self.percent + 1:
            self.percent = int(percent)
            self._risen.set()

    def position(self, done_ms: int, total_ms: int) -> None:
        """Report how much of the audio has been recognised."""
        share = min(1.0, done_ms / total_ms) if total_ms else 1.0
        self.report(TRANSCRIBING_FROM + int(share * (TRANSCRIBING_TO - TRANSCRIBING_FROM)))

    def summarized(self, share: float) -> None:
        """Report how much has been divided into topics, 0 to 1."""
        self.report(TRANSCRIBING_TO + share * (_SUMMARIZING_TO - TRANSCRIBING_TO))

    async def __aenter__(self) -> "Progress":
        self._sender = asyncio.create_task(self._run(), name="asr.progress")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Send nothing any more, and wait until nothing is under way; safe to call twice."""
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._risen.wait()
            self._risen.clear()
            try:
                await self._send(self.percent)
            except (RunLost, NotWanted) as error:
                self._on_lost(error)
                return
            except Exception as error:  # noqa: BLE001 - progress is for people; the run goes on without it
                log.warning("asr.progress_failed", error=repr(error)[:300])
