"""From the creation of a task to the run of its handler it is one trace."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from frontrow.task.v1 import task_service_pb2, task_service_pb2_grpc
from frontrow.worker import Completed, Failed, Outcome, Run
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from libs.common.client import connect
from libs.common.telemetry import Telemetry
from libs.common.testing import eventually
from tests.conftest import Serve
from tests.integration.task.service import Tasks, new_type, serve_task
from tests.integration.worker.support import reaches, working

ROOT = Path(__file__).resolve().parents[3]


class _Spans:
    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def named(self, name: str) -> ReadableSpan:
        [span] = [span for span in self.exporter.get_finished_spans() if span.name == name]
        return span

    async def of_the_run(self) -> tuple[ReadableSpan, ReadableSpan]:
        """Return the spans of the claim and of the run, once they are there."""

        def ended() -> bool:
            return any(span.name == f"run {self.kind}" for span in self.exporter.get_finished_spans())

        await eventually(ended)
        return self.named(f"claim {self.kind}"), self.named(f"run {self.kind}")


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> _Spans:
    """Give a process-wide tracer provider for the length of a test."""
    found = _Spans(new_type())
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: found.provider)
    return found


def _parent(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


async def test_the_run_continues_the_trace_in_which_its_task_was_created(
    address: str, tasks: Tasks, spans: _Spans
) -> None:
    inside: list[int] = []

    async def handle(run: Run) -> Outcome:
        inside.append(trace.get_current_span().get_span_context().span_id)
        return Completed()

    channel = connect(address, telemetry=Telemetry(spans.provider))
    stub = task_service_pb2_grpc.TaskServiceStub(channel)
    with spans.provider.get_tracer("test").start_as_current_span("somebody creates") as somebody:
        made = (await stub.CreateTask(task_service_pb2.CreateTaskRequest(type=spans.kind), timeout=20)).task
    async with working(address, spans.kind, handle):
        await reaches(tasks, made.id, "COMPLETED")
        claim, run = await spans.of_the_run()
    await channel.close()
    assert claim.context.trace_id == run.context.trace_id == somebody.get_span_context().trace_id
    task_trace = (await tasks.get(made.id)).trace_parent.split("-")
    assert f"{_parent(claim):016x}" == task_trace[2], "the claim follows the creation"
    assert _parent(run) == claim.context.span_id
    assert inside == [run.context.span_id], "what the handler does is within the run"
    assert (claim.start_time or 0) <= (claim.end_time or 0) <= (run.start_time or 0)
    assert run.attributes is not None
    assert dict(run.attributes) == {
        "frontrow.task.id": made.id,
        "frontrow.task.type": spans.kind,
        "frontrow.task.version": 1,
        "frontrow.task.attempt": 1,
        "frontrow.run.outcome": "completed",
    }


async def test_a_run_that_fails_is_an_error_of_its_span(address: str, tasks: Tasks, spans: _Spans) -> None:
    async def handle(run: Run) -> Outcome:
        return Failed("the recording is silent")

    made = await tasks.create(spans.kind)
    async with working(address, spans.kind, handle):
        await reaches(tasks, made.id, "FAILED")
        _, run = await spans.of_the_run()
    assert (run.status.status_code, run.status.description) == (
        trace.StatusCode.ERROR,
        "the recording is silent",
    )


async def test_a_run_that_is_interrupted_says_by_what(serve: Serve, database_url: str, spans: _Spans) -> None:
    tasks = Tasks(await serve_task(serve, database_url, lease_seconds=1.5))
    begun = asyncio.Event()

    async def handle(run: Run) -> Outcome:
        begun.set()
        await asyncio.Event().wait()
        return Completed()

    made = await tasks.create(spans.kind)
    async with working(tasks.address, spans.kind, handle):
        await begun.wait()
        await tasks.cancel(made.id)
        await reaches(tasks, made.id, "CANCELLED")
        _, run = await spans.of_the_run()
    await tasks.close()
    assert run.attributes is not None
    assert run.attributes["frontrow.run.outcome"] == "interrupted"
    assert run.attributes["frontrow.run.cancel_requested"] is True


_ALONE = """
import sys
sys.modules["opentelemetry"] = None
from frontrow.task.v1 import task_pb2
from frontrow.worker import Run, tracing

assert not tracing.AVAILABLE
with tracing.Spans().around(Run(task_pb2.Task(id="x", version=1))):
    print("ran")
files = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
print(*sorted({name.split(".")[0] for name, file in files.items() if "site-packages" in file}))
"""


def test_the_library_needs_grpcio_and_protobuf_alone() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "libs" / "client")}
    told = subprocess.run(
        [sys.executable, "-c", _ALONE], env=environment, capture_output=True, text=True, check=True
    )
    ran, packages = told.stdout.splitlines()
    assert ran == "ran"
    # What else is installed beside grpcio it imports by itself.
    others = {name for name in packages.split() if not name.startswith("grpc")}
    assert others <= {"google", "typing_extensions", "_distutils_hack"}
