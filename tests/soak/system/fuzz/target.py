"""The servers under attack: one real process with tokens in force, and every way to call it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from frontrow.client.signing import METHOD as SUBMIT
from frontrow.client.signing import sign
from sqlalchemy.engine import make_url

from libs.common.statuses import from_error
from services.access import ROLES
from tests.e2e.process import Process
from tests.soak.system.fuzz.methods import Method

DATABASE_SECRET, SEALING_SECRET = "canary-of-the-database", "ca4a27" + "5e" * 29
CALL_SECONDS, WAIT_SECONDS = 20.0, 0.15
MOST_ANSWERS = 20
Metadata = tuple[tuple[str, str | bytes], ...]
_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
)


@dataclass(frozen=True)
class Outcome:
    """What a call came to: code and reason, all that was told of a failure, what was answered, its time."""

    method: str
    code: grpc.StatusCode
    reason: str
    told: bytes
    answered: bytes
    seconds: float
    allowed_seconds: float


@dataclass
class Target:
    """The running servers. `known` are ids of what is stored, `secrets` what must never come back."""

    process: Process
    channels: dict[str, grpc.Channel]
    known: tuple[str, ...] = ()
    secrets: dict[str, str] = field(default_factory=dict)
    spider: tuple[str, str] = ("", "")
    memory_before: int = 0

    def bearer(self, role: str) -> Metadata:
        """Return the metadata with the token of a role."""
        return (("authorization", f"Bearer {token_of(role)}"),)

    def signed(self, method: Method, raw: bytes) -> Metadata:
        """Return a signature, where the method wants one."""
        if method.path != SUBMIT or not self.spider[0]:
            return ()
        return sign(raw, key_id=self.spider[0], secret=self.spider[1])

    def call(
        self,
        method: Method,
        requests: Sequence[bytes],
        metadata: Metadata | None = None,
        *,
        seconds: float | None = None,
    ) -> Outcome:
        """Make a call to its end, as an admin unless `metadata` says otherwise; a failure is an outcome."""
        allowed = seconds or (WAIT_SECONDS if method.waits else CALL_SECONDS)
        sent = self.bearer("admin") if metadata is None else metadata
        began = time.monotonic()
        call = self.begin(method, iter(requests), sent, allowed)
        answered = bytearray()
        try:
            if method.server_streams:
                for _, answer in zip(range(MOST_ANSWERS), call, strict=False):
                    answered += answer
                call.cancel()
            else:
                answered += call.result()
        except (grpc.RpcError, grpc.FutureCancelledError):
            pass  # what it came to is read below
        taken, code = time.monotonic() - began, call.code()
        reason = "" if code is grpc.StatusCode.OK else from_error(call).reason
        return Outcome(method.path, code, reason, _told(call), bytes(answered), taken, allowed)

    def begin(
        self, method: Method, requests: Iterator[bytes], metadata: Metadata, seconds: float | None
    ) -> Any:
        """Begin a call whose messages are bytes; return it."""
        channel = self.channels[method.context]
        if method.client_streams:
            make = channel.stream_stream if method.server_streams else channel.stream_unary
            begun = make(method.path)
            start = begun if method.server_streams else begun.future
            return start(requests, metadata=metadata, timeout=seconds)
        request = next(requests, b"")
        if method.server_streams:
            return channel.unary_stream(method.path)(request, metadata=metadata, timeout=seconds)
        return channel.unary_unary(method.path).future(request, metadata=metadata, timeout=seconds)

    def memory_bytes(self) -> int:
        """Return what the servers' process takes."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * 4096

    def log(self) -> str:
        """Return what the servers logged."""
        return self.process.log_file.read_text(errors="replace")

    def close(self) -> int:
        """Close the channels and stop the servers; return their exit status."""
        for channel in self.channels.values():
            channel.close()
        return self.process.stop()


def _told(call: Any) -> bytes:
    metadata = [*(call.initial_metadata() or ()), *(call.trailing_metadata() or ())]
    values = [value if isinstance(value, bytes) else str(value).encode() for _, value in metadata]
    return b"\n".join([(call.details() or "").encode(), *values])


def token_of(role: str) -> str:
    """Return the token of a role's one holder."""
    return f"canary-token-of-{role}"


def start(folder: Path, database_url: str) -> Target:
    """Start the four servers without workers, over a migrated database."""
    entries = [_entry(role, [role]) for role in ROLES]
    entries.append(_entry("late", ["admin"]) + "expires = 2026-01-01T00:00:00Z\n")
    entries.append(_entry("self", ["service", "worker"]))
    (folder / "tokens.toml").write_text("\n".join(entries))
    (folder / "self.token").write_text(token_of("self"))
    url = make_url(database_url).set(password=DATABASE_SECRET).render_as_string(hide_password=False)
    process = Process(
        folder / "data",
        {
            "FRONTROW_TOKENS_FILE": str(folder / "tokens.toml"),
            "FRONTROW_TOKEN_FILE": str(folder / "self.token"),
            "FRONTROW_DATABASE_URL": url,
            "FRONTROW_WORKERS": "false",
            "FRONTROW_INGEST_SEALING_KEY": SEALING_SECRET,
        },
    ).start()
    channels = {
        name: grpc.insecure_channel(address, options=_OPTIONS)
        for name, address in process.addresses().items()
    }
    secrets = {f"token of {role}": token_of(role) for role in (*ROLES, "self", "late")}
    secrets |= {"password": DATABASE_SECRET, "sealing key": SEALING_SECRET}
    return Target(process, channels, secrets=secrets)


def _entry(subject: str, roles: list[str]) -> str:
    digest = hashlib.sha256(token_of(subject).encode()).hexdigest()
    return f'[[tokens]]\nsubject = "{subject}"\nroles = {roles}\nsha256 = "{digest}"\n'
