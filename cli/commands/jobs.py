"""`frontrow jobs`: what became of submitted galleries."""

import click
from frontrow.ingest.v1 import ingest_job_pb2, ingest_service_pb2, ingest_service_pb2_grpc

from cli.connection import CALL_SECONDS, Connection
from cli.output import as_dict, clock, json_option, print_json, print_table, word

_STATUSES = ["pending", "processing", "done", "failed"]


@click.command()
@click.argument("job_id", required=False)
@click.option(
    "--status", "statuses", multiple=True, type=click.Choice(_STATUSES), help="Only these. Repeatable."
)
@click.option("--source", default="", help="Only this source, e.g. vogue.")
@click.option("-n", "--limit", default=20, show_default=True, help="How many, newest first.")
@json_option
@click.pass_obj
def jobs(
    connection: Connection,
    *,
    job_id: str | None,
    statuses: tuple[str, ...],
    source: str,
    limit: int,
    as_json: bool,
) -> None:
    """List ingest jobs, or show one with each image's outcome.

    A job that is done was `created`, or skipped as a duplicate: then it names the draft or official page
    that it met. A failed one says what was wrong.

    \b
    Examples:
      frontrow jobs
      frontrow jobs --status failed
      frontrow jobs 0198c0de-… --json
    """
    if job_id:
        job = connection.run("ingest", _get(connection, job_id))
        found = [job]
    else:
        query = ingest_service_pb2.ListIngestJobsRequest(
            statuses=[
                ingest_job_pb2.IngestJobStatus.Value(f"INGEST_JOB_STATUS_{name.upper()}") for name in statuses
            ],
            source=source,
            page_size=limit,
        )
        found = connection.run("ingest", _list(connection, query))
    if as_json:
        print_json(as_dict(found[0]) if job_id else [as_dict(job) for job in found])
        return
    _print(found)
    if job_id:
        _print_images(found[0])


async def _get(connection: Connection, job_id: str) -> ingest_job_pb2.IngestJob:
    async with connection.channel("ingest") as channel:
        stub = ingest_service_pb2_grpc.IngestServiceStub(channel)
        request = ingest_service_pb2.GetIngestJobRequest(job_id=job_id)
        return (await stub.GetIngestJob(request, timeout=CALL_SECONDS)).job


async def _list(
    connection: Connection, query: ingest_service_pb2.ListIngestJobsRequest
) -> list[ingest_job_pb2.IngestJob]:
    async with connection.channel("ingest") as channel:
        stub = ingest_service_pb2_grpc.IngestServiceStub(channel)
        return list((await stub.ListIngestJobs(query, timeout=CALL_SECONDS)).jobs)


def outcome(job: ingest_job_pb2.IngestJob) -> str:
    """Return in a few words what came of a job, with the ids a person needs next."""
    if job.status == ingest_job_pb2.INGEST_JOB_STATUS_FAILED:
        return f"{job.failure_reason}: {job.error_message}"
    parts = []
    if job.done_reason:
        parts.append(word(ingest_job_pb2.DoneReason, job.done_reason, "DONE_REASON_"))
    if job.draft_id:
        parts.append(f"draft {job.draft_id}")
    if job.HasField("blocker"):
        kind = word(ingest_job_pb2.BlockerKind, job.blocker.kind, "BLOCKER_KIND_")
        parts.append(f"met {kind} {job.blocker.id} ({job.blocker.status})")
    return ", ".join(parts)


def _print(found: list[ingest_job_pb2.IngestJob]) -> None:
    print_table(
        ["id", "status", "source", "title", "images", "try", "created (UTC)", "outcome"],
        [
            (
                job.job_id,
                word(ingest_job_pb2.IngestJobStatus, job.status, "INGEST_JOB_STATUS_"),
                job.source,
                job.title,
                job.image_count,
                job.attempts,
                clock(job.create_time),
                outcome(job),
            )
            for job in found
        ],
        empty="No jobs. `frontrow submit FILE` makes one.",
    )


def _print_images(job: ingest_job_pb2.IngestJob) -> None:
    print_table(
        ["#", "image", "result", "size", "reason"],
        [
            (
                image.position,
                image.url,
                word(ingest_job_pb2.ImageResult, image.result, "IMAGE_RESULT_"),
                f"{image.width}x{image.height}" if image.width else "",
                f"{image.reason} {image.message}".strip(),
            )
            for image in job.images
        ],
        empty="No image outcomes yet.",
    )
