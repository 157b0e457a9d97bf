"""The spider's client for ordinary code."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

import grpc
from frontrow.client.refusal import read
from frontrow.client.retry import Submission
from frontrow.client.spider import Spider
from frontrow.ingest.v1 import gallery_pb2, ingest_job_pb2, ingest_service_pb2
from frontrow.worker.dial import Dial


class SpiderClient(Spider[grpc.Channel]):
    """Submit galleries and ask about jobs. May be shared by threads."""

    @staticmethod
    def _open(dial: Dial) -> grpc.Channel:
        return dial.sync(repeats=False)

    def submit(self, gallery: gallery_pb2.Gallery, *, request_id: str = "") -> Submission:
        """Submit a gallery; an empty `request_id` gets a fresh one.

        Raises:
            Refused: it was refused for good, or the deadline passed without an answer.
        """
        submitting = self._submitting(gallery, request_id)
        while True:
            request, signed, seconds = submitting.attempt()
            try:
                return submitting.answered(self._submit(request, metadata=signed, timeout=seconds))
            except grpc.RpcError as error:
                time.sleep(submitting.pause_after(error))

    def get_job(self, job_id: str) -> ingest_job_pb2.IngestJob:
        """Return a job with each image's outcome. Raises Refused."""
        request = ingest_service_pb2.GetIngestJobRequest(job_id=job_id)
        ask: Any = self._stub.GetIngestJob
        try:
            job: ingest_job_pb2.IngestJob = ask(
                request, metadata=self._asking, timeout=self._deadline_seconds
            ).job
        except grpc.RpcError as error:
            raise read(error) from error
        return job

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def __enter__(self) -> SpiderClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
