"""Choose what makes topics and summaries: the language model when there is one, else the local method."""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from services.asr.worker.llm_errors import LlmFailed
from services.asr.worker.llm_topics import LlmTopics
from services.asr.worker.speech import OnShare, Topic, Utterance, ignore_share
from services.asr.worker.topics import LocalTopics

log = structlog.get_logger(__name__)


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

    async def close(self) -> None:
        """End what both need."""
        await self._local.close()
        if self._llm is not None:
            await self._llm.close()
