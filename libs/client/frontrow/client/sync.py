"""The spider's client for ordinary code."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

import grpc
from frontrow.client.refusal import read
from frontrow.client.retry import DEADLINE_SECONDS, Patience, Submission, fresh_request_id
from frontrow.client.signing import METHOD, sign
from frontrow.ingest.v1 import gallery_pb2, ingest_job_pb2, ingest_service_pb2, ingest_service_pb2_grpc
from frontrow.worker.dial import Dial

if TYPE_CHECKING:
    _Submit = grpc.UnaryUnaryMultiCallable[bytes, ingest_service_pb2.SubmitGalleryResponse]


class SpiderClient:
    """Submit galleries and ask about jobs. May be shared by threads."""

    def __init__(
        self,
        target: str | Dial,
        *,
        key_id: str,
        secret: str,
        deadline_seconds: float = DEADLINE_SECONDS,
        credentials: grpc.ChannelCredentials | None = None,
        plaintext: bool = False,
        channel: grpc.Channel | None = None,
    ) -> None:
        """Connect to `target` (host:port) at the first call.

        Beyond this machine give TLS `credentials`, or `plaintext` on purpose. `deadline_seconds` bounds one
        submission with all its attempts. A `channel` that is open already is used instead of `target`, and
        closed with the client.
        """
        dial = target if isinstance(target, Dial) else Dial(target, credentials, plaintext)
        self._channel = channel or dial.sync()
        self._key_id, self._secret = key_id, secret
        self._deadline_seconds = deadline_seconds
        # sends bytes as they are: what is signed is what travels
        self._submit: _Submit = self._channel.unary_unary(
            METHOD, response_deserializer=ingest_service_pb2.SubmitGalleryResponse.FromString
        )
        self._stub = ingest_service_pb2_grpc.IngestServiceStub(self._channel)

    def submit(self, gallery: gallery_pb2.Gallery, *, request_id: str = "") -> Submission:
        """Submit a gallery; an empty `request_id` gets a fresh one.

        Raises:
            Refused: it was refused for good, or the deadline passed without an answer.
        """
        request_id = request_id or fresh_request_id()
        message = ingest_service_pb2.SubmitGalleryRequest(gallery=gallery, request_id=request_id)
        request = message.SerializeToString()
        patience = Patience(self._deadline_seconds)
        while True:
            signed = sign(request, key_id=self._key_id, secret=self._secret)
            try:
                answer = self._submit(request, metadata=signed, timeout=patience.attempt_seconds())
            except grpc.RpcError as error:
                time.sleep(patience.pause_after(read(error)))
            else:
                return Submission(answer.job_id, answer.accepted, request_id)

    def get_job(self, job_id: str) -> ingest_job_pb2.IngestJob:
        """Return a job with each image's outcome. Raises Refused."""
        request = ingest_service_pb2.GetIngestJobRequest(job_id=job_id)
        try:
            return self._stub.GetIngestJob(request, timeout=self._deadline_seconds).job
        except grpc.RpcError as error:
            raise read(error) from error

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def __enter__(self) -> SpiderClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
