"""Let nobody in who may not: the token of each call, and whom it makes the actor."""

from __future__ import annotations

from typing import Any

import structlog

from libs.common.access import Access, TokenMissing
from libs.common.errors import DomainError, Kind
from libs.common.interceptors.call import Serve, ServedCall, Step
from libs.common.interceptors.context import acting_as, current_actor

AUTHORIZATION = "authorization"


class CertificateMissing(DomainError):
    """Refuse a process's token on a connection that shows no certificate of a process."""

    kind = Kind.UNAUTHENTICATED
    reason = "CERTIFICATE_MISSING"


def authorised(access: Access, *, certified: bool) -> Step:
    """Return the step; with `certified` a process's token needs a connection with a client certificate."""

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
            if certified and is_process and not call.context.auth_context().get("x509_pem_cert"):
                raise CertificateMissing(
                    f"{principal.subject} must call with its certificate, on the address for processes"
                )
            actor = (current_actor() if is_process else "") or principal.subject
            structlog.contextvars.bind_contextvars(actor=actor)
            with acting_as(actor):
                return await proceed(call)

        return serve

    return step
