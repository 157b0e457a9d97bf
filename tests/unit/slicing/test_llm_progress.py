"""Choosing by a language model is seen to go on with each answer, and is over when the model hangs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from libs.common.objects.local import LocalStore
from services.asr.slicing import llm_passages, llm_words
from services.asr.slicing.chooser import Chooser
from services.asr.slicing.selection import Rules, Selection
from tests.unit.slicing.build import said, selection

MINUTE, COUNT = 60_000, 3
KEEP = "staging/slicing/p/"


class Model:
    """A model that finds three short passages in each window, and words for no clip; it may hang."""

    name = "m"

    def __init__(self, *, hangs: bool = False) -> None:
        self._hangs = hangs
        self.shares = [0.0]
        self.seen: list[float] = []

    async def ask(self, system: str, user: str, schema: dict[str, Any]) -> dict[str, Any]:
        """Answer, and note the share done by then."""
        self.seen.append(self.shares[-1])
        if self._hangs:
            await asyncio.Event().wait()
        if system == llm_words.SYSTEM:
            return {"clips": []}
        return {"passages": [{"first": 40 * n, "last": 40 * n + 9} for n in range(COUNT)]}

    async def close(self) -> None:
        """Do nothing."""


def hours() -> Selection:
    """Make a selection that is asked about in several windows."""
    return selection(said(3_000), prompt="我想看介绍不粘锅的部分", duration_ms=30_000_000)


async def test_each_answer_is_progress_that_only_rises_to_the_end(tmp_path: Path) -> None:
    model = Model()
    planned, source = await Chooser(LocalStore(tmp_path), Rules(), model).choose(
        hours(), KEEP, model.shares.append
    )
    assert source == "llm/m"
    assert len(planned) > 12, "the words fit one question"
    assert sorted(set(model.seen)) == model.seen, "two questions in a row without progress"
    assert sorted(model.shares) == model.shares
    assert model.shares[-1] == 1.0


async def test_a_model_that_hangs_costs_no_clip_and_each_question_given_up_is_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (llm_passages, llm_words):
        monkeypatch.setattr(module, "WINDOW_SECONDS", 0.05)
    model = Model(hangs=True)
    planned, source = await Chooser(LocalStore(tmp_path), Rules(), model).choose(
        hours(), KEEP, model.shares.append
    )
    assert source == "prompt"
    assert all(clip.words is not None and clip.words.source == "local" for clip in planned)
    assert sorted(set(model.seen)) == model.seen, "two questions in a row without progress"
