"""The page of metrics: who may read it, and that nobody can hold it up."""

from __future__ import annotations

import hashlib
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client.parser import text_string_to_metric_families

from libs.common.access import Rules
from libs.common.credentials import InsecureTransport
from libs.common.metrics_endpoint import MOST_READERS, MetricsEndpoint, MetricsUnservable
from libs.common.settings import TransportSettings
from libs.common.telemetry import Telemetry
from tests.wire.common.authority import Authority

RULES = Rules({}, metrics=frozenset({"ops"}))


@contextmanager
def served(address: str = "127.0.0.1:0", **settings: object) -> Iterator[tuple[str, MeterProvider]]:
    """Serve the metrics of a provider; give the address and the provider."""
    transport = TransportSettings.model_validate(settings)
    endpoint = MetricsEndpoint(address, transport, RULES)
    provider = MeterProvider([endpoint])
    try:
        yield endpoint.bound, provider
    finally:
        provider.shutdown()


def fetch(
    address: str, path: str = "/metrics", *, token: str = "", tls: ssl.SSLContext | None = None
) -> tuple[int, str]:
    """Return status and text of a page."""
    host, _, port = address.rpartition(":")
    connection = (
        http.client.HTTPSConnection(host, int(port), timeout=10, context=tls)
        if tls
        else http.client.HTTPConnection(host, int(port), timeout=10)
    )
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def tokens(folder: Path, **roles: str) -> Path:
    """Write a file of tokens whose texts are `token-of-NAME`."""
    path = folder / "tokens.toml"
    path.write_text(
        "".join(
            f'[[tokens]]\nsubject = "{name}"\nroles = ["{role}"]\n'
            f'sha256 = "{hashlib.sha256(f"token-of-{name}".encode()).hexdigest()}"\n'
            for name, role in roles.items()
        )
    )
    return path


def test_calls_and_the_process_are_on_the_page_in_prometheus_own_form() -> None:
    with served() as (address, provider):
        Telemetry(meters=provider).record("server", "/a.B/C", "OK", 0.003)
        status, page = fetch(address)
    families = {family.name: family for family in text_string_to_metric_families(page)}
    assert status == 200
    calls = families["frontrow_rpc_server_calls"]
    assert [(sample.labels, sample.value) for sample in calls.samples] == [
        ({"method": "/a.B/C", "code": "OK"}, 1.0)
    ]
    buckets = [s for s in families["frontrow_rpc_server_duration_seconds"].samples if "le" in s.labels]
    assert {s.labels["le"]: s.value for s in buckets}["0.005"] == 1.0
    assert families["process_resident_memory_bytes"].samples[0].value > 0


def test_there_is_no_other_page_and_nothing_can_be_sent() -> None:
    with served() as (address, _):
        assert fetch(address, "/")[0] == 404
        assert fetch(address, "/metrics/../../etc/passwd")[0] == 404
        host, _, port = address.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=10)
        connection.request("POST", "/metrics", body=b"x")
        assert connection.getresponse().status == 501
        connection.close()


def test_with_a_file_of_tokens_the_page_takes_one_of_ops(tmp_path: Path) -> None:
    with served(tokens_file=tokens(tmp_path, ann="editor", eve="ops", root="admin")) as (address, _):
        nobody, editor, ops, admin = (
            fetch(address, token=token) for token in ("", "token-of-ann", "token-of-eve", "token-of-root")
        )
        assert fetch(address, token="guessed")[0] == 401
    assert (nobody[0], json.loads(nobody[1])["reason"]) == (401, "TOKEN_MISSING")
    assert (editor[0], json.loads(editor[1])["reason"]) == (403, "ROLE_MISSING")
    assert (ops[0], admin[0]) == (200, 200)


def test_beyond_loopback_it_takes_tls_and_tokens_or_the_loud_permission(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).issue("server")
    pair = {"tls_cert": certificate, "tls_key": key}
    for settings in ({}, pair, {"tokens_file": tokens(tmp_path, eve="ops")}):
        with (
            pytest.raises(InsecureTransport, match="FRONTROW_METRICS_LISTEN"),
            served("0.0.0.0:0", **settings),
        ):
            pass
    with served("0.0.0.0:0", insecure_plaintext=True) as (address, _):
        assert fetch(f"127.0.0.1:{address.rpartition(':')[2]}")[0] == 200


def test_tls_shows_a_new_certificate_from_the_next_connection_on(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    trusting = ssl.create_default_context(cafile=str(authority.roots))
    guarded = {"tls_cert": certificate, "tls_key": key, "tokens_file": tokens(tmp_path, eve="ops")}

    def shown(address: str) -> bytes:
        host, _, port = address.rpartition(":")
        with (
            socket.create_connection((host, int(port)), timeout=10) as plain,
            trusting.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
        ):
            return secured.getpeercert(binary_form=True) or b""

    with served(**guarded) as (address, _):
        assert fetch(address, token="token-of-eve", tls=trusting)[0] == 200
        with pytest.raises((OSError, http.client.HTTPException)):
            fetch(address)
        before = shown(address)
        authority.issue("server")
        assert shown(address) != before
        assert fetch(address, token="token-of-eve", tls=trusting)[0] == 200


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999", "192.0.2.1:0"])
def test_an_address_that_cant_be_served_is_named(address: str) -> None:
    with (
        pytest.raises(MetricsUnservable, match="FRONTROW_METRICS_LISTEN"),
        served(address, insecure_plaintext=True),
    ):
        pass


def test_a_port_that_is_taken_is_named() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(MetricsUnservable, match="no other process"),
        served(f"127.0.0.1:{taken.getsockname()[1]}"),
    ):
        pass


@pytest.mark.parametrize("over_tls", [False, True])
def test_more_silent_readers_than_there_may_be_cost_no_threads_and_nobody_the_page(
    tmp_path: Path, over_tls: bool
) -> None:
    authority = Authority(tmp_path)
    pair = dict(zip(("tls_cert", "tls_key"), authority.issue("server"), strict=True)) if over_tls else {}
    trusting = ssl.create_default_context(cafile=str(authority.roots)) if over_tls else None
    with served(**pair) as (address, _):
        host, _, port = address.rpartition(":")
        before = threading.active_count()
        silent = [socket.create_connection((host, int(port))) for _ in range(4 * MOST_READERS)]
        assert fetch(address, tls=trusting)[0] == 200
        assert threading.active_count() - before <= 2 * MOST_READERS
        assert silent[0].recv(1) == b""  # the oldest was let go
        for connection in silent:
            connection.close()


def test_silent_readers_hold_up_nobody_and_many_at_once_all_get_the_whole_page() -> None:
    with served() as (address, provider):
        Telemetry(meters=provider).record("server", "/a.B/C", "OK", 0.003)
        host, _, port = address.rpartition(":")
        silent = [socket.create_connection((host, int(port))) for _ in range(10)]
        with ThreadPoolExecutor(8) as pool:
            pages = list(pool.map(lambda _: fetch(address), range(40)))
        assert {status for status, _ in pages} == {200}
        assert all("frontrow_rpc_server_calls_total{" in page for _, page in pages)
        for connection in silent:
            connection.close()
