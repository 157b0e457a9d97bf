"""Choose what makes topics and summaries: the language model when there is one, else the local method."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from libs.common.child import ChildError
from services.asr.worker.llm_errors import LlmFailed
from services.asr.worker.llm_topics import LlmTopics
from services.asr.worker.speech import OnShare, Topic, Utterance, ignore_share
from services.asr.worker.topics import LocalTopics

log = structlog.get_logger(__name__)

# Utterances prepared at a time, and how many times as long the rest after them: a sixth of a processor.
_AT_ONCE, _REST = 32, 5.0


@dataclass(frozen=True, slots=True)
class Summaries:
    """Topics in order, what made them, and why the language model did not where it should have."""

    topics: list[Topic]
    source: str
    llm_error: str = ""


class Summarizer:
    """Makes summaries; a language model that fails never costs the transcript."""

    def __init__(self, local: LocalTopics, llm: LlmTopics | None = None) -> None:
        self._local = local
        self._llm = llm

    async def summarize(self, utterances: Sequence[Utterance], on_share: OnShare = ignore_share) -> Summaries:
        """Return the topics of all utterances; by the local method when there is no model, or it fails.

        `on_share` is told the share done, 0 to 1; it may begin again when the model fails.
        """
        error = ""
        if self._llm is not None and utterances:
            try:
                return Summaries(*await self._llm.topics(utterances, on_share))
            except LlmFailed as failed:
                error = str(failed)
                log.warning("asr.llm_failed", error=error[:300])
        topics, source = await self._local.topics(utterances, on_share)
        return Summaries(topics, source, error)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Callable[[Sequence[Utterance]], None]]:
        """Give what takes utterances as they are recognised; inside the block topics are prepared of them.

        Nothing is prepared where a language model makes them. Preparing that fails costs time alone.
        """
        if self._llm is not None:
            yield lambda _: None
            return
        listening = _Listening(self._local)
        preparing = asyncio.create_task(listening.prepare(), name="asr.listening")
        try:
            yield listening.hear
        except BaseException:
            preparing.cancel()
            raise
        finally:
            listening.end()
            # to the end of what is in hand, since cancelling that would cost all that its child has prepared
            await asyncio.gather(preparing, return_exceptions=True)

    async def close(self) -> None:
        """End what both need."""
        await self._local.close()
        if self._llm is not None:
            await self._llm.close()


class _Listening:
    """Prepares a few utterances at a time with long rests: the engine needs all processors."""

    def __init__(self, local: LocalTopics) -> None:
        self._local = local
        self._heard: deque[Utterance] = deque()
        self._said = asyncio.Event()
        self._over = asyncio.Event()

    def hear(self, utterances: Sequence[Utterance]) -> None:
        """Take utterances that were recognised."""
        self._heard.extend(utterances)
        self._said.set()

    def end(self) -> None:
        """Prepare no more of them."""
        self._over.set()
        self._said.set()

    async def prepare(self) -> None:
        """Prepare until the end."""
        while await self._said.wait() and not self._over.is_set():
            some = [self._heard.popleft() for _ in range(min(_AT_ONCE, len(self._heard)))]
            if not self._heard:
                self._said.clear()
            began = time.monotonic()
            try:
                await self._local.prepare(some)
            except ChildError as error:
                log.warning("asr.listening_failed", error=str(error)[:300])
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_REST * (time.monotonic() - began)):
                    await self._over.wait()
