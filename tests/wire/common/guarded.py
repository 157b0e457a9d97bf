"""A server that takes tokens, and callers who have one."""

import hashlib
from contextlib import asynccontextmanager
from pathlib import Path

from libs.common.access import ANYONE, Rules
from libs.common.client import connect
from libs.common.interceptors.context import current_actor
from libs.common.settings import TransportSettings
from tests.wire.common.probe import ASK, SERVICE, WATCH, Part, Probe, Response, stub_on

RULES = Rules(
    {
        ASK: frozenset({"editor", "worker"}),
        WATCH: ANYONE,
        f"/{SERVICE}/Upload": frozenset(),
        "/grpc.health.v1.Health/Check": ANYONE,
    },
    processes=frozenset({"worker"}),
)


def write_tokens(folder: Path, **roles: str) -> Path:
    """Write a file in which each role's token is its name."""
    path = folder / "tokens.toml"
    path.write_text("\n".join(entry(subject, role) for subject, role in roles.items()))
    return path


def entry(subject: str, role: str, *more: str) -> str:
    digest = hashlib.sha256(f"token-of-{subject}".encode()).hexdigest()
    return "\n".join(
        ["[[tokens]]", f'subject = "{subject}"', f'roles = ["{role}"]', f'sha256 = "{digest}"', *more]
    )


async def who(_request, _context):
    return Response(text=current_actor())


async def parts(_request, _context):
    yield Part()


@asynccontextmanager
async def guarded(folder: Path, **settings):
    transport = TransportSettings(tokens_file=folder / "tokens.toml", **settings)
    async with Probe(ask=who, watch=parts).serving(transport=transport, rules=RULES) as stub:
        yield stub


@asynccontextmanager
async def calling_as(stub, folder: Path, subject: str, *, actor: str = "", address: str = "", **settings):
    """Give a stub of somebody who has a token."""
    mine = folder / f"{subject}.token"
    mine.write_text(f"token-of-{subject}\n")
    transport = TransportSettings(token_file=mine, **settings)
    channel = connect(address or stub.address, transport=transport, actor=actor)
    try:
        yield stub_on(channel)
    finally:
        await channel.close()
