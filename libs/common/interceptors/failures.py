"""Recognise the failures of database, object store and other services for what they mean to a caller."""

from __future__ import annotations

import grpc

from libs.common import db
from libs.common.errors import (
    DatabaseUnavailable,
    DeadlineExceeded,
    DomainError,
    InvalidArgument,
    ObjectStoreUnavailable,
    PeerUnavailable,
)
from libs.common.objects.store import StoreUnavailable

_RETRY_SECONDS = 1.0
_STORE_RETRY_SECONDS = 5.0
# Busy, or stopping while it serves the call, is as good as away.
_PEER_AWAY = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.CANCELLED}
)


def as_domain_error(error: BaseException) -> DomainError | None:
    """Return the refusal an error stands for, None when it is a defect of ours.

    A database that is away, busy or just changed: the same call may succeed soon. A value it can't hold
    (class 22): the request is at fault. An object store that is away or full, a service that can't be reached
    or is too slow, met by a handler that didn't deal with it, stay that.
    """
    if isinstance(error, DomainError):
        return error
    if isinstance(error, grpc.aio.AioRpcError):
        return _of_peer(error)
    if isinstance(error, StoreUnavailable):
        return ObjectStoreUnavailable(
            "the object store can't serve this call now; try again", retry_delay_seconds=_STORE_RETRY_SECONDS
        )
    if db.is_transient(error):
        return DatabaseUnavailable(
            "the database can't serve this call now; try again", retry_delay_seconds=_RETRY_SECONDS
        )
    if db.is_bad_data(error):
        return InvalidArgument("a value is outside of what can be stored; check ranges and texts")
    return None


def _of_peer(error: grpc.aio.AioRpcError) -> DomainError | None:
    if error.code() in _PEER_AWAY:
        return PeerUnavailable(
            "a service this call needs can't be reached now; try again", retry_delay_seconds=_RETRY_SECONDS
        )
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineExceeded("a service this call needs did not answer in time")
    return None
