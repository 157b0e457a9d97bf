"""Know who acts: the caller's name from metadata, kept for the call and handed on to nested calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from urllib.parse import quote, unquote

import structlog

from libs.common.interceptors.call import Serve, ServedCall

ACTOR_KEY = "x-frontrow-actor"
MAX_ACTOR_LENGTH = 200
_SAFE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")

_actor: ContextVar[str] = ContextVar("actor", default="")


def current_actor() -> str:
    """Return the name of who acts in the present call, empty when the caller gave none (domain.md 5)."""
    return _actor.get()


@contextmanager
def acting_as(actor: str) -> Iterator[None]:
    """Make `actor` the one who acts inside the block; calls made there carry the name."""
    token = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(token)


def encode_actor(actor: str) -> str:
    """Write a name for metadata, which is ASCII: everything else percent-encoded as UTF-8."""
    return quote(actor, safe=_SAFE)


def decode_actor(value: str | None) -> str:
    """Read a name from metadata: control characters dropped, at most 200 characters."""
    if not value:
        return ""
    text = unquote(value, errors="replace")
    return "".join(character for character in text if character.isprintable())[:MAX_ACTOR_LENGTH].strip()


def identified(proceed: Serve) -> Serve:
    """Set the actor and the log context for each call."""

    async def serve(call: ServedCall) -> Any:
        actor = decode_actor(call.metadata(ACTOR_KEY))
        acting = _actor.set(actor)
        # Not `bound_contextvars`: it copies the whole context.
        fields = {"method": call.method, "actor": actor} if actor else {"method": call.method}
        bound = structlog.contextvars.bind_contextvars(**fields)
        try:
            return await proceed(call)
        finally:
            structlog.contextvars.reset_contextvars(**bound)
            _actor.reset(acting)

    return serve
