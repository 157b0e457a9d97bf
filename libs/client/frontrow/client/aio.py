"""The spider's client for asyncio."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

import grpc
from frontrow.client.refusal import read
from frontrow.client.retry import Submission
from frontrow.client.spider import Spider
from frontrow.ingest.v1 import gallery_pb2, ingest_job_pb2, ingest_service_pb2
from frontrow.worker.dial import Dial


class AsyncSpiderClient(Spider[grpc.aio.Channel]):
    """Submit galleries and ask about jobs, within one event loop."""

    @staticmethod
    def _open(dial: Dial) -> grpc.aio.Channel:
        return dial.aio(repeats=False)

    async def submit(self, gallery: gallery_pb2.Gallery, *, request_id: str = "") -> Submission:
        """Submit a gallery; an empty `request_id` gets a fresh one.

        Raises:
            Refused: it was refused for good, or the deadline passed without an answer.
        """
        submitting = self._submitting(gallery, request_id)
        while True:
            request, signed, seconds = submitting.attempt()
            try:
                return submitting.answered(await self._submit(request, metadata=signed, timeout=seconds))
            except grpc.aio.AioRpcError as error:
                await asyncio.sleep(submitting.pause_after(error))

    async def get_job(self, job_id: str) -> ingest_job_pb2.IngestJob:
        """Return a job with each image's outcome. Raises Refused."""
        request = ingest_service_pb2.GetIngestJobRequest(job_id=job_id)
        call: Any = self._stub.GetIngestJob(request, metadata=self._asking, timeout=self._deadline_seconds)
        try:
            job: ingest_job_pb2.IngestJob = (await call).job
        except grpc.aio.AioRpcError as error:
            raise read(error) from error
        return job

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()

    async def __aenter__(self) -> AsyncSpiderClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
