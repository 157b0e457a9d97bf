"""Let Prometheus fetch this process's metrics: one page over HTTP, in a thread of its own.

It tells names of methods, kinds of work and numbers, no content; who may read it follows the same rules as a
gRPC server: on loopback whoever is on this machine, elsewhere TLS and a token, or the loud plaintext setting.
"""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import SHUT_RDWR, socket
from typing import Any

import structlog
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder

from libs.common.access import Access, Rules, TokenFile
from libs.common.credentials import InsecureTransport, is_loopback
from libs.common.errors import DomainError, Kind
from libs.common.settings import TransportSettings

log = structlog.get_logger(__name__)

PATH = "/metrics"
PREFIX = "frontrow"
"""What the names begin with: `rpc.server.calls` is `frontrow_rpc_server_calls_total` there."""
_CLIENT_SECONDS = 10.0
MOST_READERS = 32
"""Connections at once; one more takes the place of the oldest, which has had the longest time."""

_UNGUARDED = (
    "FRONTROW_METRICS_LISTEN={address} is not a loopback address: set FRONTROW_TLS_CERT, FRONTROW_TLS_KEY "
    "and FRONTROW_TOKENS_FILE, or FRONTROW_INSECURE_PLAINTEXT=1 on a network you trust"
)


class MetricsUnservable(OSError):
    """Refuse an address for metrics that is no `host:port` or can't be bound."""


class MetricsEndpoint(PrometheusMetricReader):
    """A reader of metrics that serves what it reads, and stops when its provider does.

    Raises:
        InsecureTransport: the address is no loopback one, and neither guarded nor permitted.
        MetricsUnservable: it can't be bound.
    """

    def __init__(self, address: str, transport: TransportSettings, rules: Rules) -> None:
        registry = CollectorRegistry()
        self._access = _access(address, transport, rules)
        self._server = _bound(address, registry, self._access, _tls(transport))
        host, port = self._server.server_address[:2]
        self.bound = f"{host!s}:{port}"
        super().__init__(prefix=PREFIX, scope_info_enabled=False, registry=registry)
        ProcessCollector(registry=registry)
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()
        log.info("metrics.served", address=self.bound, tls=transport.tls_cert is not None)

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        """Stop serving, then reading."""
        self._server.shutdown()
        self._server.server_close()
        super().shutdown(timeout_millis, **kwargs)


def _access(address: str, transport: TransportSettings, rules: Rules) -> Access | None:
    """Return who decides on readers; None where everybody may read."""
    guarded = transport.tokens_file is not None and (transport.tls_cert is not None or is_loopback(address))
    if not guarded and not is_loopback(address):
        if not transport.insecure_plaintext:
            raise InsecureTransport(_UNGUARDED.format(address=address))
        log.warning("metrics.plaintext", address=address, advice="anyone on this network can read them")
    return Access(rules, TokenFile(transport.tokens_file)) if guarded and transport.tokens_file else None


def _tls(transport: TransportSettings) -> _Tls | None:
    return None if transport.tls_cert is None else _Tls(transport.tls_cert, transport.tls_key)


class _Tls:
    """TLS with the certificate that is in its files now; a new one is shown from the next connection on."""

    def __init__(self, chain: Path, key: Path | None) -> None:
        self._chain, self._key = chain, key
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._version = chain.stat().st_mtime_ns
        self._context.load_cert_chain(chain, key)

    def wrap(self, connection: socket) -> ssl.SSLSocket:
        """Greet a new connection. Raises OSError when it breaks."""
        try:
            version = self._chain.stat().st_mtime_ns
            if version != self._version:
                self._context.load_cert_chain(self._chain, self._key)
                self._version = version
        except OSError as error:  # files that are just being replaced: the old pair is good for one more
            log.warning("metrics.certificate_unreadable", error=str(error))
        return self._context.wrap_socket(connection, server_side=True)


def _bound(address: str, registry: CollectorRegistry, access: Access | None, tls: _Tls | None) -> _Server:
    host, _, port = address.rpartition(":")
    try:
        return _Server((host.strip("[]"), int(port)), registry, access, tls)
    except (OSError, ValueError, OverflowError) as error:
        raise MetricsUnservable(
            f"can't serve metrics on FRONTROW_METRICS_LISTEN={address}: {error}; it must be host:port of "
            "this machine, with a port that no other process has"
        ) from error


class _Server(ThreadingHTTPServer):
    """Answers each reader in a thread; a slow or broken one holds up nobody, and there are never many."""

    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], registry: CollectorRegistry, access: Access | None,
        tls: _Tls | None,
    ) -> None:  # fmt: skip
        self.registry, self.access, self._tls = registry, access, tls
        # The reader hands its numbers over in a queue of its own: one page at a time.
        self.reading = threading.Lock()
        # Oldest first, each with what ends it: its own socket is TLS's soon.
        self._open: dict[socket, socket] = {}
        self._counting = threading.Lock()
        super().__init__(address, _Page)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Take a new connection, which no one has asked for anything yet."""
        with self._counting:
            if len(self._open) >= MOST_READERS:
                with self._open.pop(next(iter(self._open))) as oldest, contextlib.suppress(OSError):
                    oldest.shutdown(SHUT_RDWR)  # an OSError: it has just ended by itself
            self._open[request] = request.dup()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Let a connection go."""
        with self._counting:
            if (handle := self._open.pop(request, None)) is not None:
                handle.close()
        super().shutdown_request(request)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Answer one connection, its handshake first: here, and not where new ones are taken."""
        request.settimeout(_CLIENT_SECONDS)
        if self._tls is None:
            super().finish_request(request, client_address)
            return
        with self._tls.wrap(request) as secured:  # which has taken the connection over
            super().finish_request(secured, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Leave a connection that broke."""
        log.debug("metrics.reader_failed")


class _Page(BaseHTTPRequestHandler):
    server: _Server
    timeout = _CLIENT_SECONDS
    server_version, sys_version = "frontrow", ""

    def do_GET(self) -> None:
        """Send the metrics to whoever may read them."""
        if self.path.partition("?")[0] != PATH:
            self._refuse(HTTPStatus.NOT_FOUND, "NOT_FOUND", f"there is {PATH} alone")
            return
        try:
            if self.server.access is not None:
                self.server.access.admit_to_metrics(self.headers.get("Authorization"))
        except DomainError as refusal:
            known = refusal.kind is Kind.PERMISSION_DENIED
            status = HTTPStatus.FORBIDDEN if known else HTTPStatus.UNAUTHORIZED
            self._refuse(status, refusal.reason, refusal.message)
            return
        encode, content_type = choose_encoder(self.headers.get("Accept") or "")
        with self.server.reading:
            page = encode(self.server.registry)
        self._answer(HTTPStatus.OK, content_type, page)

    def _refuse(self, status: HTTPStatus, reason: str, message: str) -> None:
        body = json.dumps({"reason": reason, "message": message}).encode()
        self._answer(status, "application/json", body)

    def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        if status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: a scrape comes every few seconds."""
