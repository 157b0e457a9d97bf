"""What is secret leaves no process as text: settings, tokens, and what stands in URLs."""

import importlib
import io
import json
import logging
import pkgutil
from collections.abc import Iterator

import pytest
import structlog
from frontrow.task.v1 import task_pb2
from frontrow.worker import Failed, Run, TaskFailed
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, Status, StatusCode
from pydantic import SecretStr
from pydantic_settings import BaseSettings

import services
from libs.common import telemetry
from libs.common.bearer import BearerToken
from libs.common.handlers import without_secrets
from libs.common.redacted_spans import RedactingExporter
from libs.common.redaction import HIDDEN, note_secret, quoted, redacted, redacted_value
from libs.common.settings import DatabaseSettings

CANARY = "canary+of/the=redactor"


@pytest.fixture(autouse=True)
def noted():
    note_secret(CANARY)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("http://host/a/b.mp4?X-Amz-Signature=TOPSECRET", "http://host/a/b.mp4?[redacted]"),
        ("to host http://h:80/x?sig=TOPSECRET, again", "to host http://h:80/x?[redacted] again"),
        ("URL('https://ann:TOPSECRET@h/x#TOPSECRET')", "URL('https://h/x#[redacted]')"),
        ("postgresql+asyncpg://u:TOPSECRET@h/db", "postgresql+asyncpg://h/db"),
        ("GET /x?a=1&X-Amz-Signature=TOPSECRET", "GET /x?a=1&X-Amz-Signature=[redacted]"),
        ("Authorization: Bearer TOPSECRETTOPSECRET", "Authorization: Bearer [redacted]"),
        (f"incorrect key: {CANARY}.", "incorrect key: [redacted]."),
        (f"key={json.dumps('canary+of/the=redactor')}", f'key="{HIDDEN}"'),
        ("canary%2Bof%2Fthe%3Dredactor", HIDDEN),
        (r"canary+of\/the=redactor", HIDDEN),
        ("is it http://host/a? Yes, 3 < 4, a=b", "is it http://host/a? Yes, 3 < 4, a=b"),
        ("来自 https://h/路径/x.mp4 的录播", "来自 https://h/路径/x.mp4 的录播"),
    ],
)
def test_secrets_are_taken_out_of_a_text_and_nothing_else(text: str, told: str):
    assert redacted(text) == told


def test_a_secret_at_the_edge_of_a_quotation_is_not_cut_in_half():
    assert quoted("x" * 190 + CANARY, 200) == "x" * 190 + HIDDEN[:10]
    assert quoted(b"\xff " + CANARY.encode(), 200) == f"\ufffd {HIDDEN}"


def test_texts_are_found_in_whatever_holds_them():
    found = redacted_value({"a": [1, None, True, (CANARY, 2.5)], "b": ValueError(CANARY)})
    assert found == {"a": [1, None, True, [HIDDEN, 2.5]], "b": HIDDEN}


def test_a_token_is_noted_when_its_file_is_read(tmp_path):
    file = tmp_path / "token"
    file.write_text("token-of-some-worker\n")
    BearerToken(file)
    assert redacted("metadata token-of-some-worker") == f"metadata {HIDDEN}"


def test_the_password_of_a_database_is_noted_when_its_url_is_read():
    DatabaseSettings(url="postgresql://u:pass%20word-of-it@h/db")
    assert redacted("no password pass word-of-it") == f"no password {HIDDEN}"


def test_every_secret_setting_notes_its_value():
    _import_all()
    secret = [
        (kind, name)
        for kind in _settings(BaseSettings)
        for name, field in kind.model_fields.items()
        if field.annotation is SecretStr
    ]
    assert len(secret) >= 4
    for number, (kind, name) in enumerate(secret):
        value = f"the-secret-of-field-{number}"
        kind.__pydantic_validator__.validate_assignment(kind.model_construct(), name, SecretStr(value))
        assert redacted(value) == HIDDEN, (kind, name)


def _import_all() -> None:
    for found in pkgutil.walk_packages(services.__path__, "services."):
        if found.name.rpartition(".")[2] in {"settings", "engine_settings", "llm_settings", "fetch_settings"}:
            importlib.import_module(found.name)
    importlib.import_module("libs.common.objects.open")


def _settings(base: type[BaseSettings]) -> Iterator[type[BaseSettings]]:
    for kind in base.__subclasses__():
        if kind.__module__.startswith(("libs.", "services.")):
            yield kind
            yield from _settings(kind)


@pytest.fixture
def lines():
    """Give the lines that the process's own log writes."""
    root, before = logging.getLogger(), structlog.get_config()
    kept, level = root.handlers, root.level
    telemetry.configure_logging()
    out = io.StringIO()
    root.handlers[0].setStream(out)
    yield lambda: [json.loads(line) for line in out.getvalue().splitlines()]
    root.handlers, _ = kept, root.setLevel(level)
    structlog.configure(**before)


def test_no_line_of_the_log_tells_a_secret_not_even_by_an_exception(lines):
    error = RuntimeError("the fetch failed")
    error.__cause__ = OSError(f"no route to http://h/x?X-Amz-Signature=TOPSECRET for {CANARY}")
    structlog.get_logger("a").error("run.failed", url="http://h/?TOPSECRET", more=[CANARY], exc_info=error)
    logging.getLogger("of.a.library").warning("failed with %s", CANARY, exc_info=error)
    text = json.dumps(lines(), ensure_ascii=False)
    assert "TOPSECRET" not in text
    assert CANARY not in text
    assert [line["event"] for line in lines()] == ["run.failed", f"failed with {HIDDEN}"]
    assert all("the fetch failed" in line["exception"] for line in lines())


def test_no_span_that_leaves_the_process_tells_a_secret_wherever_it_stands():
    kept = InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(RedactingExporter(kept)))
    other = tracers.get_tracer("a").start_span("other")
    links = [Link(other.get_span_context(), {"why": CANARY})]
    attributes = {"one": CANARY, "many": [CANARY, "plain"], "number": 3, "numbers": [1, 2]}
    span = tracers.get_tracer("a").start_span(f"GET {CANARY}", links=links, attributes=attributes)
    span.add_event(f"asked {CANARY}", {"all": [CANARY]})
    span.record_exception(RuntimeError(f"failed with {CANARY}"))
    span.set_status(Status(StatusCode.ERROR, CANARY))
    span.end()
    (told,) = kept.get_finished_spans()
    assert CANARY not in told.to_json()
    assert told.attributes == {
        "one": HIDDEN, "many": (HIDDEN, "plain"), "number": 3, "numbers": (1, 2),
    }  # fmt: skip
    assert [link.attributes for link in told.links] == [{"why": HIDDEN}]


async def test_what_a_handler_says_of_a_failure_is_told_without_secrets():
    run = Run(task_pb2.Task(id="t"), on_step=lambda: None)

    async def fails(_run: Run) -> Failed:
        return Failed(f"ENGINE_FAILED: {CANARY}", retryable=True)

    async def raises(_run: Run) -> Failed:
        raise TaskFailed(CANARY, retryable=True)

    async def breaks(_run: Run) -> Failed:
        raise ValueError(CANARY)

    assert await without_secrets(fails)(run) == Failed(f"ENGINE_FAILED: {HIDDEN}", retryable=True)
    assert await without_secrets(breaks)(run) == Failed(f"ValueError: {HIDDEN}", retryable=True)
    with pytest.raises(TaskFailed) as caught:
        await without_secrets(raises)(run)
    assert (caught.value.message, caught.value.retryable) == (HIDDEN, True)
