"""What is called over http:// beyond this machine: nothing, unless its host is named."""

import pytest
from opentelemetry.sdk.trace import TracerProvider
from pydantic import SecretStr
from structlog.testing import capture_logs

from libs.common import database_dump, database_roles, migrate, plaintext, telemetry
from libs.common.credentials import InsecureTransport
from libs.common.db import Database
from libs.common.lane import connect
from libs.common.objects import open_url
from libs.common.plaintext import permit_database, permit_url
from libs.common.settings import DatabaseSettings, StoreSettings, TelemetrySettings
from libs.common.surroundings import WorkerSurroundings
from services.asr.slicing.mount import build_worker
from services.asr.slicing.settings import SlicingWorkerSettings
from services.asr.worker.cloud_engine import CloudEngine
from services.asr.worker.engine_settings import CloudEngineSettings, RemoteEngineSettings
from services.asr.worker.llm import ChatModel
from services.asr.worker.llm_settings import LlmSettings
from services.asr.worker.remote_engine import RemoteEngine

URL = "http://away.example:8333/v1"
KEY = SecretStr("a-key-of-some-length")


def _traces() -> None:
    telemetry._export(TracerProvider(), TelemetrySettings(), URL)


OPENERS = {
    "object store": lambda: open_url(f"s3://bucket?endpoint={URL}"),
    "traces": _traces,
    "speech server": lambda: RemoteEngine(RemoteEngineSettings(url=URL, api_key=KEY)),
    "service of jobs": lambda: CloudEngine(CloudEngineSettings(url=URL, api_key=KEY)),
    "language model": lambda: ChatModel(LlmSettings(base_url=URL, api_key=KEY)),
}


@pytest.mark.parametrize("what", OPENERS)
def test_nothing_is_opened_in_plaintext_beyond_this_machine(what: str):
    with pytest.raises(InsecureTransport, match=r"away\.example .* FRONTROW_PLAINTEXT_HOSTS"):
        OPENERS[what]()


@pytest.mark.parametrize("what", sorted(set(OPENERS) - {"traces"}))
def test_a_host_that_is_named_may_be_called_and_the_log_says_so(what: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FRONTROW_PLAINTEXT_HOSTS", "other, Away.Example")
    with capture_logs() as lines:
        OPENERS[what]()
    assert [(line["event"], line["address"]) for line in lines] == [("transport.plaintext", "away.example")]


def test_the_address_of_the_environment_is_held_to_the_same(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", URL)
    with pytest.raises(InsecureTransport):
        open_url("s3://bucket/prefix")


@pytest.mark.parametrize(
    "url",
    ["https://away.example", "http://127.0.0.1:1/x", "http://[::1]:1", "http://localhost", "h:4317"],
)
def test_tls_and_this_machine_need_no_permission(url: str):
    with capture_logs() as lines:
        permit_url(url, "x")
    assert lines == []


def test_the_setting_for_everything_is_enough(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FRONTROW_INSECURE_PLAINTEXT", "1")
    permit_url(URL, "x")


def test_without_a_key_a_server_may_be_asked():
    ChatModel(LlmSettings(base_url=URL))
    RemoteEngine(RemoteEngineSettings(url=URL))


async def test_a_slicing_worker_refuses_at_its_start_not_at_its_first_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FRONTROW_OBJECT_STORE", f"s3://bucket?endpoint={URL}")
    worker = build_worker(SlicingWorkerSettings(), WorkerSurroundings.from_environment())
    with pytest.raises(InsecureTransport):
        await worker.start()
    store = StoreSettings(object_store="var/x")
    settings = SlicingWorkerSettings(llm=LlmSettings(base_url=URL, api_key=KEY))
    surroundings = WorkerSurroundings.from_environment()
    worker = build_worker(settings, WorkerSurroundings(surroundings.transport, surroundings.peers, store))
    with pytest.raises(InsecureTransport):
        await worker.start()


DATABASE = "postgresql://ann@away.example/frontrow"


async def _dump() -> None:
    async with database_dump.snapshot(DATABASE):
        pass


async def _engine() -> None:
    Database(DatabaseSettings(url=DATABASE), "test")


DATABASE_OPENERS = {
    "a pool": _engine,
    "a lane": lambda: connect(DatabaseSettings(url=DATABASE), "test"),
    "a migration": lambda: migrate.upgrade(DATABASE, "task"),
    "a look at revisions": lambda: migrate.status(DATABASE, "task"),
    "the roles": lambda: database_roles.apply(DATABASE, ["task"]),
    "a backup": _dump,
}


@pytest.mark.parametrize("what", DATABASE_OPENERS)
async def test_no_row_goes_to_another_machine_in_plaintext(what: str):
    with pytest.raises(InsecureTransport, match=r"database at away\.example .*sslmode=verify-full"):
        await DATABASE_OPENERS[what]()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://h/db",
        "postgresql://ann:secret@h:5432/db?passfile=/p",
        "postgresql+asyncpg://h/db?sslmode=prefer",
        "postgresql://h/db?sslmode=disable",
        "postgresql://127.0.0.1,h/db",
        "postgresql://127.0.0.1:1,h:2/db",
        "postgresql:///db?host=h",
        "postgresql:///db?host=/run,h",
        "postgresql:///db?host=h&host=127.0.0.1",
        "postgresql://127.0.0.1.example.com/db",
        "postgresql://[fd00::1]:5432/db",
        "postgresql:///db?service=h",
    ],
)
def test_a_database_beyond_this_machine_needs_tls_that_the_server_can_not_decline(url: str):
    with pytest.raises(InsecureTransport):
        permit_database(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://h/db?sslmode=require",
        "postgresql://h/db?sslmode=verify-full",
        "postgresql+asyncpg://ann@h1,h2/db?sslmode=verify-ca",
        "postgresql://127.0.0.1:5432/db",
        "postgresql://[::1]:5432/db",
        "postgresql://localhost,127.8.8.8/db",
        "postgresql:///db",
        "postgresql:///db?host=/run/postgresql",
        "postgresql://%2Frun%2Fpostgresql/db",
        "postgresql://frontrow@/frontrow?host=/sockets&port=5432",
    ],
)
def test_a_database_over_tls_by_a_socket_or_on_this_machine_needs_no_permission(url: str):
    with capture_logs() as lines:
        permit_database(url)
    assert lines == []


def test_a_database_of_the_environment_is_held_to_the_same(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PGHOST", "away.example")
    with pytest.raises(InsecureTransport):
        permit_database("postgresql:///db")
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    permit_database("postgresql:///db")
    with pytest.raises(InsecureTransport):
        permit_database("postgresql:///db?sslmode=prefer")


def test_a_database_whose_host_is_named_may_be_called_and_the_log_says_so_once(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("FRONTROW_PLAINTEXT_HOSTS", "away.example")
    plaintext._tell_of_database.cache_clear()
    with capture_logs() as lines:
        permit_database(DATABASE)
        permit_database(DATABASE)
    assert [(line["event"], line["address"]) for line in lines] == [("transport.plaintext", "away.example")]
