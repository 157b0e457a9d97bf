"""From a spider's call to the official page, and from an upload to its clips: traces, logs, metrics."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import grpc.aio
import pytest
import yaml
from frontrow.task.v1 import task_service_pb2 as pb
from frontrow.task.v1 import task_service_pb2_grpc, work_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from demo.site import ImageSite
from libs.common.client import connect
from services.asr.media import ffmpeg
from services.task.loops.gauges import INTERVAL_SECONDS
from tests.e2e.observed import Observed, observed
from tests.e2e.process import ROOT
from tests.unit.deploy.expressions import alerts, grouped_by, panels, selectors

pytestmark = pytest.mark.timeout(300)  # a whole system, with speech recognition

INGEST, REVIEW, TASK, ASR = (
    f"frontrow.{name}" for name in ("ingest.v1", "review.v1", "task.v1.TaskService", "asr.v1")
)
SPOKEN_SECONDS = "25"
# What Prometheus itself adds to whatever it fetches.
TARGET_LABELS = {"job", "instance"}
# Their values are all on the page before anything happened, or no alert would see the first event.
_OF_EVENTS = {"server", "check", "status", "cause", "outcome", "layer", "write", "store"}

Answer = TypeVar("Answer")


@pytest.fixture(scope="module")
def system(data_dir: Path, database_url: str) -> Iterator[Observed]:
    """Give a watched system."""
    with observed(data_dir, database_url) as running:
        yield running


@cache
def submitted(system: Observed) -> dict[str, Any]:
    """Submit a gallery and approve its draft, once for all tests; return its job."""

    async def work() -> dict[str, Any]:
        site = ImageSite()
        await site.start()
        try:
            return await asyncio.to_thread(_submit, system, site.origin)
        finally:
            await site.stop()

    return run(work())


def run(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine on a loop of its own, in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def _submit(system: Observed, origin: str) -> dict[str, Any]:
    key = system.process.cli_json("spiders", "add", "watched")
    system.secrets += [key["secret"], key["key_id"]]
    gallery = json.loads(system.process.cli("submit", "--example", "street").stdout)
    gallery |= {"images": [{"url": f"{origin}/photos/coffee.jpg", "position": 1}], "source": "watched"}
    signing = {"FRONTROW_SPIDER_KEY_ID": key["key_id"], "FRONTROW_SPIDER_SECRET": key["secret"]}

    def send(**changes: object) -> dict[str, Any]:
        file = system.process.data_dir.parent / "street.json"
        file.write_text(json.dumps(gallery | changes))
        job: dict[str, Any] = system.process.cli_json("submit", str(file), "--wait", **signing)
        return job

    first = send()
    assert send()["done_reason"] == "DONE_REASON_SOURCE_DUPLICATE"
    assert system.process.cli_json("approve", "street", first["draft_id"])["published"]
    send(source_url="https://example.org/without-a-year", year=0, month=0)
    return first


@cache
def sliced(system: Observed) -> dict[str, Any]:
    """Upload a recording and cut it, once for all tests; return the project and its clips."""
    spoken = system.process.data_dir.parent / "spoken.mp4"
    whole = ROOT / "samples" / "live_zh.mp4"
    cut = ("-i", f"file:{whole}", "-t", SPOKEN_SECONDS, "-c", "copy", f"file:{spoken}")
    run(ffmpeg.run(cut, timeout_seconds=60))
    material = system.process.cli_json("materials", "add", str(spoken), "--wait")
    made: dict[str, Any] = system.process.cli_json("slice", material["id"])
    return made


async def _trouble(address: str) -> None:
    """Let a run be requeued, a late write and a call be refused."""
    channel = connect(address)
    stub = task_service_pb2_grpc.TaskServiceStub(channel)
    await stub.CreateTask(pb.CreateTaskRequest(type="watched"))
    claimed = await stub.ClaimTasks(pb.ClaimTasksRequest(worker_id="w", types=["watched"], max_tasks=1))
    [task] = claimed.tasks
    again = work_pb2.FinishItem(task_id=task.id, version=task.version, released=work_pb2.RunReleased())
    late = work_pb2.FinishItem(task_id=task.id, version=task.version, completed=work_pb2.RunCompleted())
    for item in (again, late):
        await stub.FinishTasks(pb.FinishTasksRequest(worker_id="w", items=[item]))
    with pytest.raises(grpc.aio.AioRpcError):
        await stub.GetTask(pb.GetTaskRequest(task_id="0198c0de-0000-7000-8000-000000000000"))
    await channel.close()


def whole(system: Observed, root: str) -> list[trace_pb2.Span]:
    """Return the trace that begins with a call, and check that no link of its chain is missing."""
    first = system.collector.wait_for(root)
    deadline = time.monotonic() + 10
    while True:
        spans = system.collector.trace(first.trace_id)
        known = {span.span_id for span in spans}
        loose = [s.name for s in spans if s.span_id != first.span_id and s.parent_span_id not in known]
        if not loose:
            return spans
        assert time.monotonic() < deadline, f"{loose} hang on nothing"
        time.sleep(0.1)  # what they hang on ends after them


def names(spans: list[trace_pb2.Span]) -> set[str]:
    """Return the names of the spans."""
    return {span.name for span in spans}


def test_a_gallery_is_one_trace_from_the_spiders_call_to_its_draft(system: Observed) -> None:
    submitted(system)
    system.collector.wait_for(f"{INGEST}.IngestWorkService/FinishJob")
    system.collector.wait_for("run ingest")
    spans = whole(system, f"{INGEST}.IngestService/SubmitGallery")
    assert names(spans) >= {
        f"{TASK}/CreateTask",
        "claim ingest",
        "run ingest",
        f"{INGEST}.IngestWorkService/BeginJob",
        f"{REVIEW}.IntakeService/CheckSource",
        f"{REVIEW}.IntakeService/FindOfficial",
        f"{REVIEW}.IntakeService/ReserveMedia",
        f"{REVIEW}.IntakeService/ConfirmMedia",
        f"{INGEST}.IngestWorkService/RecordImages",
        f"{REVIEW}.IntakeService/CreateStreetSnapDraft",
        f"{INGEST}.IngestWorkService/FinishJob",
    }


def test_an_approval_is_a_trace_of_its_own_that_points_at_what_brought_the_draft_in(
    system: Observed,
) -> None:
    submitted(system)
    approval = system.collector.wait_for(f"{REVIEW}.DraftService/ApproveDraft")
    created = system.collector.wait_for(f"{REVIEW}.IntakeService/CreateStreetSnapDraft")
    assert approval.trace_id != created.trace_id
    assert [(link.trace_id, link.span_id) for link in approval.links] == [(created.trace_id, created.span_id)]


def test_a_recording_is_a_chain_of_traces_from_its_upload_to_its_clips(system: Observed) -> None:
    assert sliced(system)["clips"]
    system.collector.wait_for(f"{ASR}.SlicingService/SaveClips")
    system.collector.wait_for("run ai_slice")
    transcription = whole(system, f"{ASR}.LiveMaterialService/CreateLiveMaterial")
    assert names(transcription) >= {
        f"{TASK}/CreateTask",
        "claim asr",
        "run asr",
        f"{ASR}.TranscriptionService/BeginTranscription",
        f"{ASR}.TranscriptionService/SaveTranscriptPart",
        f"{ASR}.TranscriptionService/CompleteTranscription",
    }
    slicing = whole(system, f"{ASR}.VideoProjectService/CreateVideoProject")
    assert names(slicing) >= {f"{TASK}/CreateTask", "run ai_slice", f"{ASR}.SlicingService/SaveClips"}
    upload = system.collector.wait_for(f"{ASR}.LiveMaterialService/UploadMedia")
    creation = system.collector.wait_for(f"{ASR}.LiveMaterialService/CreateLiveMaterial")
    project = system.collector.wait_for(f"{ASR}.VideoProjectService/CreateVideoProject")
    assert [link.span_id for link in creation.links] == [upload.span_id]
    assert [link.span_id for link in project.links] == [creation.span_id]


def test_the_log_lines_of_a_run_carry_the_trace_of_the_call_that_led_to_it(system: Observed) -> None:
    submitted(system)
    call = system.collector.wait_for(f"{INGEST}.IngestService/SubmitGallery")
    mine = [event for event in system.logged() if event.get("trace_id") == call.trace_id.hex()]
    assert "ingest.created" in {event["event"] for event in mine}
    assert all(len(event["span_id"]) == 16 for event in mine)


@cache
def everything_done(system: Observed) -> None:
    """Let the system have done all that has a metric, and have looked at its queues since."""
    submitted(system)
    sliced(system)
    run(_trouble(system.process.addresses()["task"]))
    deadline = time.monotonic() + 2 * INTERVAL_SECONDS + 10
    while ("frontrow_task_queue_paused", "watched") not in {
        (sample.name, sample.labels.get("type")) for sample in system.samples()
    }:
        assert time.monotonic() < deadline, "the queues weren't looked at"
        time.sleep(0.2)


def test_dashboard_and_alerts_name_only_metrics_and_labels_that_a_running_system_has(
    system: Observed,
) -> None:
    everything_done(system)
    labels: dict[str, set[str]] = {"up": set()}
    values: dict[str, set[str]] = {}
    for sample in system.samples():
        labels.setdefault(sample.name, set()).update(sample.labels)
        for label, value in sample.labels.items():
            values.setdefault(label, set()).add(value)
    used = [(title, expression, legend) for title, expression, legend in panels()]
    used += [(alert, expression, "") for alert, expression in alerts()]
    assert len(used) > 40
    for title, expression, legend in used:
        read = list(selectors(expression))
        assert read, title
        for selector in read:
            assert selector.name in labels, f"{title}: nothing is named {selector.name}"
            matched = {matcher.name for matcher in selector.matchers.matchers}
            known = labels[selector.name] | TARGET_LABELS
            assert matched <= known, f"{title}: {selector.name} has no {matched - known}"
            for matcher in selector.matchers.matchers:
                if matcher.name in _OF_EVENTS:
                    asked = set(matcher.value.split("|"))
                    there = values[matcher.name]
                    assert asked <= there, f"{title}: {matcher.name} is never {asked - there}"
        known = set().union(*(labels[selector.name] for selector in read)) | TARGET_LABELS
        shown = set(re.findall(r"{{(\w+)}}", legend)) | grouped_by(expression)
        assert shown <= known, f"{title}: no {shown - known}"


def test_alerts_say_what_is_wrong_by_labels_that_their_expressions_leave(system: Observed) -> None:
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yaml").read_text(encoding="utf-8"))
    documented = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        left = grouped_by(rule["expr"]) or {"server", "check", *TARGET_LABELS}
        named = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert named <= left, rule["alert"]
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert f"`{rule['alert']}`" in documented, rule["alert"]


def test_every_metric_is_documented_and_every_documented_one_is_there(system: Observed) -> None:
    everything_done(system)
    text = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(frontrow_\w+)`", text, re.MULTILINE)) == system.families()


def test_no_secret_no_address_and_no_name_of_a_person_is_on_the_page(system: Observed) -> None:
    everything_done(system)
    page = system.page()
    assert len(system.secrets) == 2
    for word in (*system.secrets, "http://", "https://", "spoken", str(Path.home()), "live_zh"):
        assert word not in page
    assert "frontrow_ingest_street_snaps_undated_total" in page
