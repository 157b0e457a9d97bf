"""Let nobody in who may not: the token of each call, and whom it makes the actor."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from ipaddress import IPv6Address, ip_address
from typing import Any
from urllib.parse import unquote

import structlog

from libs.common.access import Access, Principal, TokenMissing, TokenUnknown
from libs.common.errors import DomainError, Kind
from libs.common.interceptors.call import Serve, ServedCall, Step
from libs.common.interceptors.context import acting_as, current_actor

AUTHORIZATION = "authorization"
LOOK_SECONDS = 2.0
"""Between two looks at the token of a call that lasts: who has lost it goes on for no longer."""


class CertificateMissing(DomainError):
    """Refuse a process's token on a connection that shows no certificate of a process."""

    kind = Kind.UNAUTHENTICATED
    reason = "CERTIFICATE_MISSING"


def authorised(
    access: Access, *, certified: bool, here: Collection[str] | None = (), long_polls: Collection[str] = ()
) -> Step:
    """Return the step; with `certified` a process's token needs a connection with a client certificate.

    Without, it counts on this machine alone, on loopback or from one of the addresses `here`: elsewhere a
    stolen one would be all that it takes. With None for `here` it counts from everywhere.

    Streams, and the methods named in `long_polls`, end when their caller's token does.
    """

    def step(proceed: Serve) -> Serve:
        async def serve(call: ServedCall) -> Any:
            if call.says_twice(AUTHORIZATION):  # what stands before us may have looked at the other one
                raise TokenMissing("send metadata `authorization` once; this call has several")
            principal = access.admit(call.method, call.metadata(AUTHORIZATION))
            if principal is None:  # nobody answers for the name that a stranger gives
                structlog.contextvars.bind_contextvars(actor="")
                with acting_as(""):
                    return await proceed(call)
            is_process = access.is_process(principal)
            if is_process and not call.context.auth_context().get("x509_pem_cert"):
                if certified:
                    raise CertificateMissing(
                        f"{principal.subject} must call with its certificate, on the address for processes"
                    )
                if here is not None and not is_near(call.context.peer(), here):
                    raise CertificateMissing(
                        f"{principal.subject} calls from another machine, where a process must show its "
                        "certificate: set FRONTROW_TLS_CLIENT_CA on this server, and give it one"
                    )
            actor = (current_actor() if is_process else "") or principal.subject
            structlog.contextvars.bind_contextvars(actor=actor)
            with acting_as(actor):
                if call.shape.request_streaming or call.shape.response_streaming or call.method in long_polls:
                    return await _while_admitted(access, principal, proceed, call)
                return await proceed(call)

        return serve

    return step


def is_near(peer: str, here: Collection[str] = ()) -> bool:
    """Tell whether gRPC's name of a peer means this machine: `ipv4:127.0.0.1:4711`, `ipv6:%5B::1%5D:4711`.

    Whose address is one that this machine listens on (`here`) calls from it.
    """
    kind, _, place = unquote(peer).partition(":")
    if kind == "unix":
        return True
    try:
        address = ip_address(place.rpartition(":")[0].strip("[]"))
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback or str(mapped or address) in here


async def _while_admitted(access: Access, principal: Principal, proceed: Serve, call: ServedCall) -> Any:
    """Serve a call that may last for as long as its caller would be let in anew. Raises TokenUnknown then."""
    loop = asyncio.get_running_loop()
    admitted = asyncio.timeout(None)
    next_look: asyncio.TimerHandle

    def look() -> None:
        nonlocal next_look
        if access.still_admits(call.method, principal):
            next_look = loop.call_later(LOOK_SECONDS, look)
        else:
            admitted.reschedule(loop.time())

    next_look = loop.call_later(LOOK_SECONDS, look)
    try:
        async with admitted:
            return await proceed(call)
    except TimeoutError as error:
        if not admitted.expired():
            raise
        raise TokenUnknown(
            "while the call went on this token was taken away, or its time ended; ask an admin for a new one"
        ) from error
    finally:
        next_look.cancel()
