"""Choosing clips and their words: by the language model where there is one, else by the local method.

A model that fails never costs a run, and is never paid twice for one: what it chose is kept in the store as
long as the project, so that a run that resumes another cuts the same clips.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json

import structlog

from libs.common.keywords import parse
from libs.common.objects.store import ObjectMissing, ObjectStore
from services.asr.slicing.llm_passages import LlmPassages
from services.asr.slicing.llm_words import LlmWords
from services.asr.slicing.select import plan, plan_passages
from services.asr.slicing.selection import Planned, Rules, Selection, Words
from services.asr.slicing.words import local_words
from services.asr.worker.llm_errors import LlmFailed
from services.asr.worker.llm_questions import Model
from services.asr.worker.speech import OnShare, ignore_share

log = structlog.get_logger(__name__)

_SOURCE_CHARACTERS = 64


class Chooser:
    """Turns a selection into clips to cut, each with its words."""

    def __init__(self, store: ObjectStore, rules: Rules, model: Model | None = None) -> None:
        """`model` is None when no language model is configured."""
        self._store = store
        self._rules = rules
        self._model = model

    async def choose(
        self, selection: Selection, keep_in: str, on_share: OnShare = ignore_share
    ) -> tuple[list[Planned], str]:
        """Return the clips, at least one, and what chose them; see `select.plan`.

        `keep_in` is the folder of objects where a model's choice is kept. `on_share` is told the share done,
        0 to 1, while a model is asked.

        Raises:
            NothingChosen: there is nothing to cut. ObjectStoreError: the store is in trouble.
        """
        if self._model is None:
            planned, source = await asyncio.to_thread(plan, selection, self._rules)
            return await asyncio.to_thread(_with_local_words, planned), source
        key = f"{keep_in}{self._digest(selection, self._model)}.json"
        try:
            return _read(await self._store.get_bytes(key))
        except ObjectMissing:
            chosen = await self._by_model(selection, self._model, on_share)
        await self._store.put_bytes(key, _written(*chosen))
        return chosen

    async def _by_model(
        self, selection: Selection, model: Model, on_share: OnShare
    ) -> tuple[list[Planned], str]:
        planned, source = await self._passages(selection, model, lambda share: on_share(share / 2))
        on_share(0.5)
        local = await asyncio.to_thread(_with_local_words, planned)
        return await LlmWords(model).write(local, lambda share: on_share((1 + share) / 2)), source

    async def _passages(
        self, selection: Selection, model: Model, on_share: OnShare
    ) -> tuple[list[Planned], str]:
        if selection.prompt.strip() and not parse(selection.keywords):
            try:
                passages = await LlmPassages(model).find(selection, on_share)
            except LlmFailed as failed:
                log.warning("slicing.llm_failed", what="passages", error=str(failed)[:300])
            else:
                planned = plan_passages(selection, passages, self._rules)
                return planned, f"llm/{model.name}"[:_SOURCE_CHARACTERS]
        return await asyncio.to_thread(plan, selection, self._rules)

    def _digest(self, selection: Selection, model: Model) -> str:
        asked = repr((dataclasses.astuple(selection), dataclasses.astuple(self._rules), model.name))
        return hashlib.sha256(asked.encode()).hexdigest()


def _with_local_words(planned: list[Planned]) -> list[Planned]:
    return [
        dataclasses.replace(clip, words=local_words(clip, position)) for position, clip in enumerate(planned)
    ]


def _written(planned: list[Planned], source: str) -> bytes:
    clips = [
        {
            "start_ms": clip.start_ms,
            "end_ms": clip.end_ms,
            "sentences": clip.sentences,
            "words": dataclasses.asdict(clip.words) if clip.words else None,
        }
        for clip in planned
    ]
    return json.dumps({"source": source, "clips": clips}, ensure_ascii=False).encode()


def _read(kept: bytes) -> tuple[list[Planned], str]:
    data = json.loads(kept)
    planned = [
        Planned(
            start_ms=clip["start_ms"],
            end_ms=clip["end_ms"],
            sentences=tuple(clip["sentences"]),
            topic=None,
            words=Words(**{**clip["words"], "topics": tuple(clip["words"]["topics"])}),
        )
        for clip in data["clips"]
    ]
    return planned, data["source"]
