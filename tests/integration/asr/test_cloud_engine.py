"""A speech service that takes jobs: the contract of docs/speech-engines.md, and how such services fail."""

import asyncio
import wave
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from libs.common.testing import eventually
from services.asr.worker.cloud_engine import CloudEngine
from services.asr.worker.engine import EngineDenied, EngineFailed, EngineUnreachable
from services.asr.worker.engine_settings import CloudEngineSettings, RemoteEngineSettings
from services.asr.worker.settings import AsrWorkerSettings
from services.asr.worker.speech import Span
from tests.integration.asr.cloud_server import CloudServer, serving_jobs

SPAN = Span(1, 2_000, 5_000)
RESULT = {"language": "zh", "segments": [{"start": 0.5, "end": 1.0, "text": "利率下降"}]}
DONE = {"status": "succeeded", "result": RESULT}


@pytest.fixture
def wav(tmp_path: Path) -> Path:
    """Give six seconds of 16 kHz mono."""
    path = tmp_path / "audio.wav"
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(16_000)
        out.writeframes(bytes(2 * 96_000))
    return path


@asynccontextmanager
async def service(**settings: Any) -> AsyncIterator[tuple[CloudEngine, CloudServer]]:
    async with serving_jobs() as server:
        quick = {"poll_seconds": 0.001, "polls": 20, "first_pause_seconds": 0, "timeout_seconds": 1}
        made = CloudEngineSettings.model_validate(
            {"url": server.url, "model": "m", "api_key": SecretStr("k"), **quick, **settings}
        )
        engine = CloudEngine(made, language="zh", prompt="国债")
        try:
            yield engine, server
        finally:
            await engine.close()


async def test_a_job_is_submitted_polled_and_its_times_come_back_on_the_recordings_clock(wav: Path) -> None:
    positions: list[int] = []
    async with service() as (engine, server):
        server.jobs = [
            {"status": "queued"},
            {"status": "running", "progress": 0.5},
            {"status": "running"},
            DONE,
        ]
        language, found = await engine.transcribe(wav, SPAN, positions.append)
        assert await engine.name() == "cloud/m"
    assert (language, [(item.start_ms, item.end_ms, item.text) for item in found]) == (
        "zh",
        [(2_500, 3_000, "利率下降")],
    )
    assert positions == [2_142, 3_500, 3_500, 5_000]
    (sent,) = server.submitted
    assert (sent["model"], sent["language"], sent["prompt"], sent["authorization"]) == (
        "m",
        "zh",
        "国债",
        "Bearer k",
    )
    assert len(sent["sound"]) == 44 + 2 * 48_000


async def test_a_repeated_submission_finds_the_job_of_the_first_by_its_key(wav: Path) -> None:
    async with service() as (engine, server):
        server.submissions = [503, 429, 500]
        server.jobs = [DONE, DONE, DONE]
        await engine.transcribe(wav, SPAN, lambda _: None)
        await engine.transcribe(wav, SPAN, lambda _: None)
        await engine.transcribe(wav, Span(0, 0, 2_000), lambda _: None)
    keys = [sent["key"] for sent in server.submitted]
    assert len(set(keys[:5])) == 1
    assert keys[5] != keys[0]
    assert len(server.made) == 2


@pytest.mark.parametrize("polls", [[503, 429, DONE], [500, "hang", DONE], ["close", DONE]])
async def test_missed_polls_are_no_end(wav: Path, polls: list[Any]) -> None:
    async with service(timeout_seconds=0.2) as (engine, server):
        server.jobs = polls
        _, found = await engine.transcribe(wav, SPAN, lambda _: None)
    assert len(found) == 1


async def test_a_service_that_is_away_is_an_outage_and_charges_nobody(wav: Path) -> None:
    async with service(attempts=2) as (engine, server):
        server.submissions = [503, 429]
        with pytest.raises(EngineUnreachable, match="status 429"):
            await engine.transcribe(wav, SPAN, lambda _: None)
        server.jobs = [503] * 20
        with pytest.raises(EngineUnreachable, match="status 503"):
            await engine.transcribe(wav, SPAN, lambda _: None)
    nobody = CloudEngine(CloudEngineSettings(url="http://127.0.0.1:1", attempts=2, first_pause_seconds=0))
    with pytest.raises(EngineUnreachable, match="ClientConnectorError"):
        await nobody.transcribe(wav, SPAN, lambda _: None)
    await nobody.close()


async def test_a_key_that_is_refused_is_an_outage_at_each_call(wav: Path) -> None:
    async with service() as (engine, server):
        server.submissions = [401]
        with pytest.raises(EngineDenied, match="401"):
            await engine.transcribe(wav, SPAN, lambda _: None)
        server.jobs = [{"status": "running"}, 403]
        with pytest.raises(EngineDenied, match="403"):
            await engine.transcribe(wav, SPAN, lambda _: None)
        server.submissions = [404]
        with pytest.raises(EngineDenied, match="404"):
            await engine.transcribe(wav, SPAN, lambda _: None)


async def test_a_job_that_lives_moves_on_though_its_service_tells_no_progress(wav: Path) -> None:
    positions: list[int] = []
    async with service(polls=99) as (engine, server):
        server.jobs = [{"status": "running"}] * 98 + [DONE]
        await engine.transcribe(wav, SPAN, positions.append)
    assert positions == sorted(set(positions)), "each poll is a step"
    assert len(positions) == 99


async def test_a_submission_that_hangs_each_time_is_charged_since_the_chunk_may_be_why(wav: Path) -> None:
    async with service(timeout_seconds=0.1, attempts=2) as (engine, server):
        server.submissions = ["hang", "hang"]
        with pytest.raises(EngineFailed, match="no answer in 2 calls: TimeoutError"):
            await engine.transcribe(wav, SPAN, lambda _: None)


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ({"status": "failed", "error": "the sound is broken"}, "the sound is broken"),
        ({"status": "failed"}, "no reason given"),
        ({"status": "done?"}, "makes no sense"),
        ({"status": "succeeded"}, "makes no sense"),
        ({"status": "succeeded", "result": {"segments": [{"start": "a"}]}}, "no sense"),
        (
            {"status": "succeeded", "result": {"segments": [{"start": 1e400, "end": 1, "text": "x"}]}},
            "no sense",
        ),
        (404, "refused with 404"),
        (b"<html>", "no JSON"),
        (b"[1]", "no JSON object"),
    ],
)
async def test_a_failed_job_or_a_malformed_answer_is_a_failed_try(wav: Path, job: Any, said: str) -> None:
    async with service() as (engine, server):
        server.jobs = [job]
        with pytest.raises(EngineFailed, match=said):
            await engine.transcribe(wav, SPAN, lambda _: None)


@pytest.mark.parametrize(
    ("said", "position"),
    [("NaN", 2_142), ("1e400", 5_000), ("9" * 400, 5_000), ("-3", 2_142), ('"x"', 2_142)],
)
async def test_a_progress_that_makes_no_sense_costs_no_run(wav: Path, said: str, position: int) -> None:
    positions: list[int] = []
    async with service() as (engine, server):
        server.jobs = [b'{"status": "running", "progress": %s}' % said.encode(), DONE]
        await engine.transcribe(wav, SPAN, positions.append)
    assert positions == [position, 5_000]


@pytest.mark.parametrize("answer", [{"id": ""}, {"id": 7}, {}, {"id": "x" * 600}])
async def test_a_job_without_a_usable_id_is_a_failed_try(wav: Path, answer: dict[str, Any]) -> None:
    async with service() as (engine, server):
        server.submissions = [answer]
        with pytest.raises(EngineFailed, match="gave it no id"):
            await engine.transcribe(wav, SPAN, lambda _: None)


async def test_a_job_that_never_ends_is_withdrawn_after_all_polls(wav: Path) -> None:
    async with service(polls=3) as (engine, server):
        server.jobs = [{"status": "running"}] * 3
        with pytest.raises(EngineFailed, match="no result after 3 polls"):
            await engine.transcribe(wav, SPAN, lambda _: None)
    assert server.withdrawn == ["job/1"]


async def test_a_cancelled_run_stops_at_once_and_leaves_the_job_to_the_next_one(wav: Path) -> None:
    async with service(poll_seconds=600) as (engine, server):
        run = asyncio.create_task(engine.transcribe(wav, SPAN, lambda _: None))
        await eventually(lambda: bool(server.made))
        run.cancel()
        async with asyncio.timeout(1):
            with pytest.raises(asyncio.CancelledError):
                await run
    assert server.withdrawn == []


def test_the_original_systems_limits_are_the_defaults_and_remote_engines_have_six_loops() -> None:
    cloud = CloudEngineSettings(url="http://host")
    assert (cloud.poll_seconds, cloud.polls) == (10.0, 360)
    assert AsrWorkerSettings(cloud_engine=cloud).loops == 6
    assert AsrWorkerSettings(cloud_engine=cloud, concurrency=2).loops == 2
    with pytest.raises(ValidationError, match="two engines"):
        AsrWorkerSettings(cloud_engine=cloud, remote_engine=RemoteEngineSettings(url="http://other"))
