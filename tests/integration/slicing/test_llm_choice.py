"""Clips and their words by a language model: validated, bounded, paid once, and never the end of a run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from libs.common.objects.local import LocalStore
from services.asr.slicing.chooser import Chooser
from services.asr.slicing.select import NothingChosen, plan
from services.asr.slicing.selection import Planned, Rules, Selection
from services.asr.worker.llm import ChatModel
from services.asr.worker.llm_settings import LlmSettings
from tests.integration.asr.llm_server import Answer, LlmServer, completion, serving
from tests.unit.slicing.build import said, selection, topic

KEEP = "staging/slicing/p/"
RULES = Rules()
TOPICS = (topic("债券和利率", 0, 3), topic("不粘锅", 3, 6), topic("股票开户", 6, 8))


def passages(*spans: tuple[int, int]) -> str:
    return json.dumps({"passages": [{"first": first, "last": last} for first, last in spans]})


def words(*clips: tuple[int, str, str, list[str]]) -> str:
    fields = ("index", "title", "description", "topics")
    return json.dumps({"clips": [dict(zip(fields, clip, strict=True)) for clip in clips]}, ensure_ascii=False)


def says(content: str, *, finish: str = "stop") -> Answer:
    return lambda _body, _number: completion(content, finish=finish)


def status(code: int) -> Answer:
    return lambda _body, _number: web.Response(status=code, text="no")


@asynccontextmanager
async def chooser(folder: Path, *answers: Answer) -> AsyncIterator[tuple[Chooser, LlmServer]]:
    async with serving(*answers) as server:
        model = ChatModel(
            LlmSettings(base_url=server.base_url, model="m", first_pause_seconds=0.0, attempts=2)
        )
        try:
            yield Chooser(LocalStore(folder), RULES, model), server
        finally:
            await model.close()


def question(server: LlmServer, number: int) -> str:
    return str(server.requests[number]["messages"][1]["content"])


def spans(planned: Iterable[Planned]) -> list[tuple[int, int]]:
    return [(clip.start_ms, clip.end_ms) for clip in planned]


def by_prompt() -> Selection:
    return selection(topics=TOPICS, prompt="我想看介绍不粘锅的部分")


async def test_a_prompt_chooses_passages_by_index_and_the_words_are_the_models(tmp_path: Path) -> None:
    titled = words((0, "三层钢不粘锅", "介绍一款导热均匀的不粘锅。", ["不粘锅", "三层钢"]))
    async with chooser(tmp_path, says(passages((3, 5))), says(titled)) as (chosen, server):
        planned, source = await chosen.choose(by_prompt(), KEEP)
    assert source == "llm/m"
    assert [clip.sentences for clip in planned] == [tuple(u.text for u in said()[3:6])]
    made = planned[0].words
    assert made is not None
    assert (made.title, made.topics, made.source) == ("三层钢不粘锅", ("不粘锅", "三层钢"), "llm/m")
    assert question(server, 0).splitlines()[0] == "我想看介绍不粘锅的部分"
    assert question(server, 0).splitlines()[2].startswith("0\t大家晚上好")
    assert question(server, 1).startswith("0\t好，下面我们换一个话题")


@pytest.mark.parametrize(
    "wrong", [passages((3, 99)), passages((5, 3)), passages((0, 3), (2, 4)), '{"passages": "all"}', "{}"]
)
async def test_a_wrong_answer_is_told_once_and_then_the_local_method_chooses(
    tmp_path: Path, wrong: str
) -> None:
    async with chooser(tmp_path, says(wrong), says(wrong), says(words())) as (chosen, server):
        planned, source = await chosen.choose(by_prompt(), KEEP)
    assert source == "prompt"
    assert spans(planned) == spans(plan(by_prompt(), RULES)[0])
    assert "Your last answer was wrong" in question(server, 1)


async def test_a_wrong_answer_that_is_mended_is_taken(tmp_path: Path) -> None:
    async with chooser(tmp_path, says(passages((9, 9))), says(passages((6, 7))), says(words())) as (
        chosen,
        _,
    ):
        planned, source = await chosen.choose(by_prompt(), KEEP)
    assert (source, len(planned)) == ("llm/m", 1)


async def test_nothing_that_fits_is_no_match(tmp_path: Path) -> None:
    async with chooser(tmp_path, says(passages())) as (chosen, _):
        with pytest.raises(NothingChosen) as nothing:
            await chosen.choose(by_prompt(), KEEP)
    assert nothing.value.reason == "NO_MATCH"


async def test_passages_half_a_second_apart_become_one_clip(tmp_path: Path) -> None:
    close = selection(said(gap_ms=400), topics=TOPICS, prompt="锅")
    async with chooser(tmp_path, says(passages((3, 3), (4, 5))), says(words())) as (chosen, _):
        planned, _source = await chosen.choose(close, KEEP)
    assert len(planned) == 1


async def test_an_answer_that_was_cut_is_asked_for_in_halves(tmp_path: Path) -> None:
    async with chooser(
        tmp_path,
        says('{"passages": [', finish="length"),
        says(passages((3, 3))),
        says(passages((2, 3))),
        says(words()),
    ) as (chosen, server):
        planned, _ = await chosen.choose(by_prompt(), KEEP)
    assert [len(clip.sentences) for clip in planned] == [1, 2]
    assert len(question(server, 1).splitlines()) == 2 + 4


async def test_long_speech_is_asked_about_in_windows_and_none_is_left_out(tmp_path: Path) -> None:
    many = selection(said(3000), topics=(), prompt="锅", duration_ms=20_000_000)
    async with chooser(tmp_path, says(passages((0, 0)))) as (chosen, server):
        planned, _ = await chosen.choose(many, KEEP)
    asked = [question(server, i) for i in range(len(server.requests))]
    windows = [text for text in asked if text.startswith("锅\n")]
    assert len(windows) >= 4
    assert sum(len(text.splitlines()) - 2 for text in windows) == 3000
    assert len(planned) == len(windows)
    assert all(len(text) < 20_000 for text in windows)


async def test_words_out_of_bounds_are_cut_and_unusable_ones_are_the_local_methods(tmp_path: Path) -> None:
    answer = words(
        (
            0,
            "最近的市场利率和国债收益率都在下降",
            "长" * 300,
            ["债券"] * 9 + ["利率", "a", "b", "c", "d", "e"],
        ),
        (1, "锅", "说明", ["锅"]),
        (7, "不存在", "说明", ["x", "y"]),
    )
    async with chooser(tmp_path, says(answer)) as (chosen, _):
        planned, source = await chosen.choose(selection(topics=TOPICS), KEEP)
    assert source == "topics"
    first, second, third = (clip.words for clip in planned)
    assert first is not None
    assert second is not None
    assert third is not None
    assert (first.title, len(first.description), len(first.topics)) == ("最近的市场利率和国债", 128, 6)
    assert (first.source, second.source, third.source) == ("llm/m", "local", "local")
    assert (second.title, third.title) == ("不粘锅", "股票开户")


@pytest.mark.parametrize("code", [429, 500, 503, 401])
async def test_a_model_that_fails_costs_no_clip(tmp_path: Path, code: int) -> None:
    async with chooser(tmp_path, status(code)) as (chosen, _):
        planned, source = await chosen.choose(by_prompt(), KEEP)
    local, _ = plan(by_prompt(), RULES)
    assert (source, spans(planned)) == ("prompt", spans(local))
    assert all(clip.words is not None and clip.words.source == "local" for clip in planned)


async def test_a_run_that_resumes_another_pays_nothing_and_cuts_the_same(tmp_path: Path) -> None:
    titled = words((0, "不粘锅", "说锅。", ["锅", "钢"]))
    async with chooser(tmp_path, says(passages((3, 5))), says(titled)) as (chosen, server):
        first = await chosen.choose(by_prompt(), KEEP)
        again = await chosen.choose(by_prompt(), KEEP)
        assert len(server.requests) == 2
        await chosen.choose(selection(topics=TOPICS, prompt="股票"), KEEP)
        assert len(server.requests) > 2
    assert (spans(again[0]), again[1]) == (spans(first[0]), first[1])
    assert [clip.words for clip in again[0]] == [clip.words for clip in first[0]]


async def test_without_a_model_nothing_is_kept(tmp_path: Path) -> None:
    planned, source = await Chooser(LocalStore(tmp_path), RULES).choose(selection(topics=TOPICS), KEEP)
    assert (source, len(planned)) == ("topics", 3)
    assert all(clip.words is not None and clip.words.source == "local" for clip in planned)
    assert [key async for key in LocalStore(tmp_path).list(KEEP)] == []


async def test_the_model_sees_a_long_clip_to_its_end_and_is_told_of_the_gaps(tmp_path: Path) -> None:
    long = selection(said(900), topics=(topic("全部", 0, 900),), duration_ms=9_000_000)
    async with chooser(tmp_path, says(words())) as (chosen, server):
        planned, _ = await chosen.choose(long, KEEP)
    longest = max(planned, key=lambda clip: len(clip.text))
    assert len(longest.text) > 3_000
    line = next(text for text in question(server, 0).splitlines() if " … " in text)
    assert len(line) < 3_010
    assert line.endswith(longest.text[-200:])
