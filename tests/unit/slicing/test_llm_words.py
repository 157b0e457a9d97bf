"""The words of clips by a language model: what it fails at costs no other clip its words."""

from __future__ import annotations

from typing import Any

from services.asr.slicing.llm_words import LlmWords
from services.asr.slicing.selection import Planned
from services.asr.worker.llm_errors import AnswerTooLong, LlmFailed

CLIPS = 4


class Model:
    """A model with room for the words of one clip in an answer; it fails at the last clip."""

    name = "m"

    async def ask(self, system: str, user: str, schema: dict[str, Any]) -> dict[str, Any]:
        """Answer for one clip."""
        if user.count("\n"):
            raise AnswerTooLong("cut")
        if f"第{CLIPS - 1}段" in user:
            raise LlmFailed("out of order")
        words = {"title": "不粘锅的介绍", "description": "说锅。", "topics": ["锅", "钢"]}
        return {"clips": [{"index": 0, **words}]}

    async def close(self) -> None:
        """Do nothing."""


async def test_the_model_fails_at_one_clip_of_an_answer_cut_in_halves_and_the_others_have_its_words() -> None:
    planned = [Planned(0, 1000, (f"第{number}段",), None) for number in range(CLIPS)]
    written = await LlmWords(Model()).write(planned)
    assert [clip.words.source if clip.words else "" for clip in written] == ["llm/m", "llm/m", "llm/m", ""]
