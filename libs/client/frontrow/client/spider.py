"""What both clients are: one constructor, one way to sign a submission and to try it again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, NamedTuple, TypeVar

import grpc
from frontrow.client.refusal import read
from frontrow.client.retry import DEADLINE_SECONDS, Patience, Submission, fresh_request_id
from frontrow.client.signing import METHOD, sign
from frontrow.client.tracing import present_trace
from frontrow.ingest.v1 import gallery_pb2, ingest_service_pb2, ingest_service_pb2_grpc
from frontrow.worker.dial import Dial, is_loopback

_TIMEOUT_KEY = "x-frontrow-timeout"

Channel = TypeVar("Channel", grpc.Channel, grpc.aio.Channel)


class Attempt(NamedTuple):
    """One call: the bytes that are signed and travel as they are, their signature, the time it may take."""

    request: bytes
    metadata: tuple[tuple[str, str], ...]
    timeout_seconds: float


class Submitting:
    """One submission with all its attempts: the same bytes, a fresh nonce for each."""

    def __init__(
        self, request: ingest_service_pb2.SubmitGalleryRequest, key: tuple[str, str], patience: Patience
    ):
        self._request_id = request.request_id
        self._request = request.SerializeToString()
        self._key_id, self._secret = key
        self._patience = patience

    def attempt(self) -> Attempt:
        """Return the next call to make."""
        signed = sign(self._request, key_id=self._key_id, secret=self._secret)
        seconds = self._patience.attempt_seconds()
        # how long the call waited until the server took it can only be told by who knows what it began with
        metadata = (*signed, *present_trace(), (_TIMEOUT_KEY, f"{seconds:.3f}"))
        return Attempt(self._request, metadata, seconds)

    def pause_after(self, error: grpc.RpcError) -> float:
        """Return the seconds to wait before the next attempt. Raises Refused when there is to be none."""
        return self._patience.pause_after(read(error))

    def answered(self, answer: ingest_service_pb2.SubmitGalleryResponse) -> Submission:
        """Return what became of it."""
        return Submission(answer.job_id, answer.accepted, self._request_id)


class Spider(ABC, Generic[Channel]):
    """A connection to the ingest service with a spider's key."""

    def __init__(
        self,
        target: str | Dial,
        *,
        key_id: str,
        secret: str,
        deadline_seconds: float = DEADLINE_SECONDS,
        credentials: grpc.ChannelCredentials | None = None,
        plaintext: bool = False,
        token: str = "",
        channel: Channel | None = None,
    ) -> None:
        """Connect to `target` (host:port) at the first call.

        Beyond this machine give TLS `credentials`, or `plaintext` on purpose. `deadline_seconds` bounds one
        submission with all its attempts. Asking about jobs takes a `token` there; submissions carry a
        signature instead. A `channel` that is open already is used instead of `target`, and closed with the
        client; open it with `grpc.enable_retries` 0: each attempt of ours has a nonce of its own.

        Raises:
            ValueError: a token in plaintext beyond this machine: others could read it.
        """
        dial = target if isinstance(target, Dial) else Dial(target, credentials, plaintext)
        if token and dial.plaintext and not is_loopback(dial.address):
            raise ValueError("a token goes over TLS or on this machine alone: others could read it here")
        self._asking = (("authorization", f"Bearer {token}"),) if token else ()
        self._channel: Channel = self._open(dial) if channel is None else channel
        self._key = (key_id, secret)
        self._deadline_seconds = deadline_seconds
        # sends bytes as they are: what is signed is what travels
        self._submit: Any = self._channel.unary_unary(
            METHOD, response_deserializer=ingest_service_pb2.SubmitGalleryResponse.FromString
        )
        self._stub: Any = ingest_service_pb2_grpc.IngestServiceStub(self._channel)

    @staticmethod
    @abstractmethod
    def _open(dial: Dial) -> Channel:
        """Open the channel of this kind of client; its transport repeats nothing (domain.md 3.1)."""

    def _submitting(self, gallery: gallery_pb2.Gallery, request_id: str) -> Submitting:
        request = ingest_service_pb2.SubmitGalleryRequest(
            gallery=gallery, request_id=request_id or fresh_request_id()
        )
        return Submitting(request, self._key, Patience(self._deadline_seconds))
