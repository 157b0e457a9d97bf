"""A language model that answers slowly is seen to go on with each window; one that hangs is given up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from frontrow.task.v1 import task_pb2
from frontrow.worker.run import Run

from services.asr.slicing import llm_passages
from services.asr.worker import llm_topics
from services.asr.worker import topics as local_topics
from services.asr.worker.llm_errors import LlmFailed
from services.asr.worker.llm_topics import LlmTopics
from services.asr.worker.progress import TRANSCRIBING_TO, Progress
from services.asr.worker.speech import Utterance
from services.task.limits import TypeLimits
from services.task.settings import TaskSettings

WINDOWS = 40


class Model:
    """A model that finds one topic in each window; `hangs_at` is the window that it never answers."""

    name = "m"

    def __init__(self, run: Run, *, hangs_at: int = -1) -> None:
        self._run = run
        self._hangs_at = hangs_at
        self.seen: list[int] = []

    async def ask(self, system: str, user: str, schema: dict[str, Any]) -> dict[str, Any]:
        """Answer, and note how far the run is by then."""
        self.seen.append(self._run.hundredths)
        if len(self.seen) - 1 == self._hangs_at:
            await asyncio.Event().wait()
        return {"topics": [{"first": 0, "title": "话题", "summary": "说了什么。", "keywords": ["词"]}]}

    async def close(self) -> None:
        """Do nothing."""


def hours(count: int) -> list[Utterance]:
    """Make an utterance for each window."""
    hour = 3_600_000
    return [Utterance(hour * index, hour * index + 1000, "说", "说") for index in range(count)]


async def send(_: int) -> None:
    """Tell the material nothing."""


async def test_every_window_that_is_answered_is_progress_of_the_task_and_none_is_the_end() -> None:
    run = Run(task_pb2.Task(id="task", version=1))
    model = Model(run)
    progress = Progress(send, run.progress, lambda _: None)
    progress.report(TRANSCRIBING_TO)
    found, _ = await LlmTopics(model).topics(hours(WINDOWS), progress.summarized)
    assert (len(model.seen), len(found)) == (WINDOWS, WINDOWS)
    assert sorted(set(model.seen)) == model.seen, "two windows in a row without progress"
    assert (model.seen[0], run.percent, progress.percent) == (TRANSCRIBING_TO * 100, 99, 99)


async def test_a_window_without_an_answer_is_given_up_before_the_run_counts_as_stuck(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(llm_topics, "WINDOW_SECONDS", 0.05)
    model = Model(Run(task_pb2.Task(id="task", version=1)), hangs_at=2)
    with pytest.raises(LlmFailed):
        await LlmTopics(model).topics(hours(4))
    assert len(model.seen) == 3


def test_what_one_question_may_take_is_less_than_the_stall_limits() -> None:
    limits = TypeLimits(TaskSettings())
    # behind a window that failed the local method has its turn
    assert limits.stall_seconds("asr") > llm_topics.WINDOW_SECONDS + local_topics.TIMEOUT_SECONDS
    for kind in ("ai_slice", "ai_slice_draft"):
        assert limits.stall_seconds(kind) > llm_passages.WINDOW_SECONDS
