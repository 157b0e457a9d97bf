"""The calls that a worker's runs make of IngestWorkService, for tests."""

from __future__ import annotations

from frontrow.ingest.v1 import ingest_job_pb2, ingest_service_pb2, ingest_work_service_pb2

from tests.integration.ingest.conftest import Ingest
from tests.integration.ingest.submissions import refusal


class Run:
    """One job and the calls of its runs."""

    def __init__(self, ingest: Ingest, job: ingest_job_pb2.IngestJob) -> None:
        self.ingest, self.job_id, self.task_id = ingest, job.job_id, job.task_id

    async def begin(
        self, version: int, *, task_id: str = "", attempt: int = 1
    ) -> ingest_work_service_pb2.BeginJobResponse:
        """Take the job for a run."""
        return await self.ingest.work.BeginJob(
            ingest_work_service_pb2.BeginJobRequest(
                job_id=self.job_id,
                task_id=task_id or self.task_id,
                task_version=version,
                attempt=attempt,
            )
        )

    async def record(
        self, version: int, *outcomes: ingest_job_pb2.ImageOutcome
    ) -> ingest_work_service_pb2.RecordImagesResponse:
        """Keep what became of some images."""
        return await self.ingest.work.RecordImages(
            ingest_work_service_pb2.RecordImagesRequest(
                job_id=self.job_id, task_id=self.task_id, task_version=version, images=outcomes
            )
        )

    async def finish(self, version: int, **outcome: object) -> ingest_job_pb2.IngestJob:
        """End the job."""
        request = ingest_work_service_pb2.FinishJobRequest(
            job_id=self.job_id,
            task_id=self.task_id,
            task_version=version,
            **outcome,  # type: ignore[arg-type]
        )
        return (await self.ingest.work.FinishJob(request)).job

    async def job(self) -> ingest_job_pb2.IngestJob:
        """Read the job."""
        request = ingest_service_pb2.GetIngestJobRequest(job_id=self.job_id)
        return (await self.ingest.stub.GetIngestJob(request)).job


def stored(url: str, key: str = "media/aa/aa.jpg") -> ingest_job_pb2.ImageOutcome:
    """Return the outcome of an image that was stored."""
    return ingest_job_pb2.ImageOutcome(
        url=url, result=ingest_job_pb2.IMAGE_RESULT_STORED, media_key=key, sha256="ab" * 32, size_bytes=5
    )


async def reason(awaitable: object) -> str:
    """Await a call that is refused; return the refusal's reason."""
    return (await refusal(awaitable))[1]
