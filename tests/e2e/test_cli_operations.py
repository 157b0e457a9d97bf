"""What operators do on the command line, against the shared real instance.

Queues have names of their own here, so that the test is their only worker.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from frontrow.asr.v1.transcription_service_pb2 import BeginTranscriptionRequest
from frontrow.asr.v1.transcription_service_pb2_grpc import TranscriptionServiceStub
from frontrow.client import AsyncSpiderClient
from frontrow.ingest.v1 import gallery_pb2, ingest_job_pb2
from frontrow.task.v1 import task_pb2, task_service_pb2, work_pb2
from frontrow.task.v1.task_service_pb2_grpc import TaskServiceStub
from google.protobuf.duration_pb2 import Duration

from cli.main import main
from demo.site import ImageSite
from libs.common.client import connect
from libs.common.testing import eventually
from tests.e2e.process import ROOT, Process, environment
from tests.integration.asr.made_transcripts import results

pytestmark = pytest.mark.timeout(300)  # whole processes

SILENT = str(ROOT / "samples" / "edge" / "noaudio.mp4")
COMMANDS = ["why", "queues", "workers", "explain", "search", "export", "debug", "purge", "media"]
SUBCOMMANDS = ["queues pause", "queues resume", "queues limit", "tasks cancel", "tasks retry", "jobs retry"]
SUBCOMMANDS += ["spiders rotate", "spiders revoke", "media check", "media cleanup"]


@pytest.fixture
async def tasks(instance: Process) -> "AsyncIterator[TaskServiceStub]":
    """Speak to the instance's task server as a worker and a creator do."""
    async with connect(instance.addresses()["task"]) as channel:
        yield TaskServiceStub(channel)


async def create(tasks: "TaskServiceStub", kind: str) -> str:
    return (await tasks.CreateTask(task_service_pb2.CreateTaskRequest(type=kind, subject="thing:1"))).task.id


async def claim(tasks: "TaskServiceStub", kind: str, worker: str) -> task_pb2.Task:
    request = task_service_pb2.ClaimTasksRequest(
        worker_id=worker, types=[kind], max_tasks=1, wait=Duration(seconds=10)
    )
    return (await tasks.ClaimTasks(request)).tasks[0]


async def finish(tasks: "TaskServiceStub", item: work_pb2.FinishItem, worker: str) -> None:
    await tasks.FinishTasks(task_service_pb2.FinishTasksRequest(worker_id=worker, items=[item]))


def test_every_command_of_operators_teaches_by_example() -> None:
    runner = CliRunner()
    listed = runner.invoke(main, ["--help"], prog_name="frontrow").output
    for name in [*COMMANDS, *SUBCOMMANDS]:
        text = runner.invoke(main, [*name.split(), "--help"], prog_name="frontrow").output
        assert "Example" in text, name
        assert f"  frontrow {name}" in text or "frontrow spiders rotate" in text, name
    assert all(f"  {name} " in listed for name in COMMANDS)


def test_the_command_starts_from_nothing_too() -> None:
    program = "from cli.main import main; main(prog_name='frontrow')"
    done = subprocess.run(
        [sys.executable, "-c", program, "queues", "--help"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=90,
        check=True,
        env=environment(),
    )
    assert "frontrow queues pause asr" in done.stdout


async def test_why_tells_what_a_task_waits_for_and_what_each_run_came_to(
    instance: Process, tasks: "TaskServiceStub"
) -> None:
    task_id = await create(tasks, "ops_why")
    nobody = instance.cli("why", task_id).stdout
    assert nobody.startswith("It waits: no worker that takes type ops_why")
    assert "frontrow workers" in nobody
    assert "No run so far." in nobody

    first = await claim(tasks, "ops_why", "alpha")
    released = work_pb2.FinishItem(
        task_id=task_id, version=first.version, released=work_pb2.RunReleased(run_after=Duration(seconds=900))
    )
    await finish(tasks, released, "alpha")
    late = work_pb2.FinishItem(task_id=task_id, version=first.version, completed=work_pb2.RunCompleted())
    await finish(tasks, late, "alpha")
    waiting = instance.cli("why", task_id).stdout
    assert "may not run for another" in waiting
    assert "alpha" in waiting
    assert "1 refused" in waiting
    [run] = instance.cli_json("why", task_id)["runs"]
    assert (run["worker_id"], run["ended_as"], run["late_writes"]) == ("alpha", "released", 1)


async def test_a_queue_is_paused_limited_and_resumed_and_why_names_the_way_back(
    instance: Process, tasks: "TaskServiceStub"
) -> None:
    task_id = await create(tasks, "ops_queue")
    assert "ops_queue is paused; none runs." in instance.cli("queues", "pause", "ops_queue").stdout
    told = instance.cli("why", task_id).stdout
    assert "is paused" in told
    assert "frontrow queues resume ops_queue" in told

    limited = instance.cli_json("queues", "limit", "ops_queue", "2", "--attempts", "3")
    policy = limited["policy"]
    assert (policy["paused"], policy["concurrency_limit"], policy["max_attempts"]) == (True, 2, 3)
    nothing = instance.cli("queues", "limit", "ops_queue")
    assert nothing.returncode == 2
    assert "frontrow queues limit ops_queue 2" in nothing.stderr

    assert instance.cli_json("queues", "resume", "ops_queue")["policy"]["concurrency_limit"] == 2
    [listed] = instance.cli_json("queues", "--type", "ops_queue")
    assert (listed["pending"], listed["policy"]["paused"]) == ("1", False)
    wrong = instance.cli("queues", "pause", "No Type")
    assert wrong.returncode == 1
    assert "type:" in wrong.stderr


async def test_workers_are_listed_with_what_they_hold(instance: Process, tasks: "TaskServiceStub") -> None:
    task_id = await create(tasks, "ops_work")
    await claim(tasks, "ops_work", "gamma")
    query = task_service_pb2.ListWorkersRequest(type="ops_work")

    async def known() -> bool:
        return bool((await tasks.ListWorkers(query)).workers)

    await eventually(known)
    [worker] = instance.cli_json("workers", "--type", "ops_work")
    assert worker["worker_id"] == "gamma"
    assert [lease["task_id"] for lease in worker["leases"]] == [task_id]
    nobody = instance.cli("workers", "--type", "ops_none").stdout
    assert "No worker for ops_none" in nobody

    asked = instance.cli("tasks", "cancel", task_id).stdout
    assert "asked gamma to stop" in asked


async def test_a_task_is_cancelled_and_retried_and_a_refusal_says_what_to_do(
    instance: Process, tasks: "TaskServiceStub"
) -> None:
    task_id = await create(tasks, "ops_cancel")
    assert instance.cli_json("tasks", "cancel", task_id)["status"] == "TASK_STATUS_CANCELLED"
    assert "waits again" in instance.cli("tasks", "retry", task_id).stdout
    refused = instance.cli("tasks", "retry", task_id)
    assert refused.returncode == 1
    assert "TASK_NOT_RETRYABLE" in refused.stderr
    assert "frontrow why TASK" in refused.stderr
    unknown = instance.cli("why", "00000000-0000-7000-8000-000000000000")
    assert "TASK_NOT_FOUND" in unknown.stderr
    assert "frontrow tasks --once" in unknown.stderr


def test_a_spiders_key_changes_without_a_gap(instance: Process) -> None:
    first = instance.cli_json("spiders", "add", "rotating")["key_id"]
    rotated = instance.cli("spiders", "rotate", "rotating")
    assert "export FRONTROW_SPIDER_SECRET=" in rotated.stdout
    assert f"frontrow spiders revoke {first}" in rotated.stderr
    third = instance.cli("spiders", "rotate", "rotating")
    assert third.returncode == 1
    assert "TWO_KEYS_WORK" in third.stderr
    assert "frontrow spiders revoke KEY_ID" in third.stderr
    assert f"{first} works no more; rotating has " in instance.cli("spiders", "revoke", first).stdout
    assert "(revoked)" in instance.cli("spiders", "list").stdout
    nobody = instance.cli("spiders", "rotate", "nobody")
    assert "frontrow spiders list" in nobody.stderr


def test_an_article_that_was_never_submitted_is_unknown_and_can_be_asked_about_all_the_same(
    instance: Process,
) -> None:
    unknown = instance.cli("explain", "https://www.vogue.com/fashion-shows/never-seen")
    assert "ARTICLE_UNKNOWN" in unknown.stderr
    assert "--kind" in unknown.stderr


async def test_an_article_of_an_unknown_brand_is_explained_and_comes_in_once_the_brand_is_there(
    instance: Process, site: ImageSite
) -> None:
    url, brand = "https://www.vogue.com/fashion-shows/of-an-operator", "Maison Nirgendwo"
    image = gallery_pb2.GalleryImage(url=f"{site.origin}/photos/rocket.jpg", position=1)
    gallery = gallery_pb2.Gallery(
        kind=gallery_pb2.GALLERY_KIND_RUNWAY, title="Show", source="vogue", source_url=url, brand=brand,
        season_code="Fall 2026 Ready-to-Wear", images=[image],
    )  # fmt: skip
    key = instance.cli_json("spiders", "add", "operator")
    address = instance.addresses()["ingest"]
    async with AsyncSpiderClient(address, key_id=key["key_id"], secret=key["secret"]) as spider:
        job_id = (await spider.submit(gallery)).job_id

        async def ended(status: int) -> bool:
            return (await spider.get_job(job_id)).status == status

        await eventually(lambda: ended(ingest_job_pb2.INGEST_JOB_STATUS_FAILED), 60)
        told = instance.cli("explain", url).stdout
        assert "would not come in: kept out by entity" in told
        assert brand in told
        assert "What you can do:" in told
        instance.cli_json("brands", "add", brand)
        # The site answers from this process's loop: the command line must not hold it up.
        again = await asyncio.to_thread(instance.cli_json, "jobs", "retry", "--reason", "UNKNOWN_BRAND")
        assert job_id in again["retried_job_ids"]
        await eventually(lambda: ended(ingest_job_pb2.INGEST_JOB_STATUS_DONE), 60)

    draft_id = instance.cli_json("jobs", job_id)["draft_id"]
    known = instance.cli_json("explain", url)
    assert known["would_come_in"] is False
    assert draft_id in [layer["blocker"]["id"] for layer in known["layers"] if "blocker" in layer]
    kept = instance.cli("jobs", "retry", job_id).stdout
    assert "0 jobs run again" in kept
    assert "OWN_DRAFT" in kept
    both = instance.cli("jobs", "retry", job_id, "--reason", "X")
    assert both.returncode == 2
    check_media(instance)


def check_media(instance: Process) -> None:
    """Damage a stored image, see it found, mend it; see what a clean-up would do and does.

    Other tests leave images without bytes in the same instance.
    """
    stored = next(path for path in (instance.data_dir / "objects" / "media").rglob("*") if path.is_file())
    whole, before = stored.read_bytes(), instance.cli("media", "check").stdout
    stored.write_bytes(whole[:-1])
    found = instance.cli("media", "check")
    assert found.returncode == 1
    assert stored.name in found.stdout
    stored.write_bytes(whole)
    assert instance.cli("media", "check").stdout == before
    assert "Nothing was written" in instance.cli("media", "cleanup").stdout
    assert instance.cli_json("media", "cleanup", "--apply")["applied"] is True
    assert stored.exists()


@pytest.fixture
async def spoken(instance: Process, tasks: "TaskServiceStub") -> AsyncIterator[str]:
    """Give a recording with a transcript that is stored by hand; a pause keeps the workers off."""
    instance.cli("queues", "pause", "asr")
    try:
        material = instance.cli_json("materials", "add", SILENT, "--name", "of words")
        async with connect(instance.addresses()["asr"]) as channel:
            runs = TranscriptionServiceStub(channel)
            begun = await runs.BeginTranscription(
                BeginTranscriptionRequest(
                    material_id=material["id"], task_id=material["asr_task_id"], task_version=1
                )
            )
            said = ["国债收益率下行。", "口红很好看。"]
            await runs.CompleteTranscription(results(material["id"], begun.asr_version, said))
        yield material["id"]
        instance.cli("tasks", "cancel", material["asr_task_id"])
    finally:
        instance.cli("queues", "resume", "asr")


async def test_what_was_said_is_found_and_exported(instance: Process, spoken: str, tmp_path: Path) -> None:
    [hit] = instance.cli_json("search", "国债 收益率 | 股票", "--material", spoken)
    assert (hit["live_material_id"], hit["paragraph"]["text"]) == (spoken, "国债收益率下行。")
    assert "of words" in instance.cli("search", "口红").stdout
    assert "Nobody said that." in instance.cli("search", "没有人说过").stdout

    assert "口红很好看。" in instance.cli("export", spoken).stdout
    assert json.loads(instance.cli("export", spoken, "--format", "json").stdout)["name"] == "of words"
    file = tmp_path / "live.srt"
    assert instance.cli("export", spoken, "--format", "srt", "-o", str(file)).returncode == 0
    assert file.read_text().startswith("1\n00:00:00,000 --> ")
    assert instance.cli("export", spoken, "--format", "vtt", "-o", str(tmp_path)).returncode == 0
    assert sorted(Path(name).suffix for name in os.listdir(tmp_path)) == [".srt", ".vtt"]


def test_a_debug_record_tells_why_a_transcription_failed_and_can_be_pinned(
    instance: Process, tmp_path: Path
) -> None:
    instance.cli("materials", "add", SILENT, "--name", "to debug", "--wait")
    [material] = instance.cli_json("materials", "list", "-k", "debug")
    told = instance.cli("debug", material["id"]).stdout
    assert "failed" in told
    assert "999_fail" in told
    assert "NO_AUDIO" in told
    assert "NO_AUDIO" in instance.cli("debug", material["id"], "--stage", "999_fail").stdout
    pinned = instance.cli_json("debug", material["id"], "--pin")
    assert [run["pinned"] for run in pinned["runs"]] == [True]
    none = instance.cli("export", material["id"], "-o", str(tmp_path / "none.txt"))
    assert "NO_TRANSCRIPT" in none.stderr
    assert not list(tmp_path.iterdir())
    missing = instance.cli("debug", material["id"], "--run", "9")
    assert "DEBUG_RUN_NOT_FOUND" in missing.stderr
