"""What must be true of every answer to a bad client, and of the servers afterwards."""

from __future__ import annotations

import json
import re
import time

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from libs.common.testing import eventually
from services.access import RULES
from tests.e2e.process import ROOT
from tests.soak.system.fuzz.target import Outcome, Target

GRACE_SECONDS = 5.0
OURS = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNIMPLEMENTED}
# Only a servicer or a check of ours answers so, and says why.
REASONED = {
    grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.ABORTED, grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.DATA_LOSS,
}  # fmt: skip
# Nothing is wrong with database and peers while clients are bad.
TROUBLE = re.compile(rb"DATABASE_UNAVAILABLE|PEER_UNAVAILABLE|STORE_UNAVAILABLE")
# What only the inside knows: statements, libraries, files, stacks, addresses of the database.
INSIDE = re.compile(
    rb"Traceback|File \"|\.py\b|asyncpg|sqlalchemy|psycopg|SELECT |INSERT INTO|UPDATE [a-z]+\.|DELETE FROM"
    rb"|postgres(ql)?://|0x[0-9a-f]{8,}|/tmp/|/usr/|/var/|site-packages|object at|Error\(|"
    + re.escape(str(ROOT).encode())
)


def check(target: Target, outcome: Outcome) -> None:
    """Fail if the answer is our fault, came too late or tells what nobody outside should know."""
    assert outcome.code not in OURS, outcome
    assert outcome.reason or outcome.code not in REASONED, f"says no reason: {outcome}"
    assert not TROUBLE.search(outcome.told), outcome
    assert outcome.seconds <= outcome.allowed_seconds + GRACE_SECONDS, outcome
    late = outcome.code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert not (late and outcome.allowed_seconds >= GRACE_SECONDS), f"hung until its deadline: {outcome}"
    leak = INSIDE.search(outcome.told)
    assert leak is None, (leak, outcome)
    for name, secret in target.secrets.items():
        assert secret.encode() not in outcome.told + outcome.answered, f"{name} came back: {outcome}"


def may_call(method: str, role: str | None) -> bool:
    """Tell whether the table lets a role call a method; None: a stranger."""
    allowed = RULES.table[method]
    return allowed == frozenset({"anyone"}) or (
        role is not None and bool(allowed & {role} or role == "admin")
    )


async def check_servers(target: Target, memory_before: int, *, most_bytes: int) -> None:
    """Check that the servers are well after all of it: healthy, no larger than they may be, clean logs."""
    await eventually(lambda: _healthy(target), 20)
    grown = target.memory_bytes() - memory_before
    assert grown <= most_bytes, f"the servers grew by {grown / 1e6:.0f} MB"
    log = target.log()
    for name, secret in target.secrets.items():
        assert secret not in log, f"{name} is in the log"
    errors = [line for line in log.splitlines() if _is_error(line)]
    assert not errors, "\n".join(errors[:3])


def _healthy(target: Target) -> bool:
    for name, channel in target.channels.items():
        stub = health_pb2_grpc.HealthStub(channel)  # type: ignore[no-untyped-call]
        began = time.monotonic()
        answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=5)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING, name
        assert time.monotonic() - began < GRACE_SECONDS, name
    return True


def _is_error(line: str) -> bool:
    try:
        return json.loads(line).get("level") in {"error", "critical"}
    except ValueError:
        return "Traceback" in line or "Error" in line
