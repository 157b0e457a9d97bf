"""`frontrow jobs`: what became of submitted galleries."""

from collections.abc import Sequence

import click
from frontrow.ingest.v1 import ingest_job_pb2, ingest_service_pb2, ingest_service_pb2_grpc

from cli.commands.jobs_retry import retry
from cli.connection import CALL_SECONDS, Connection
from cli.cures import cured
from cli.groups import ShowingGroup
from cli.output import as_dict, clock, json_option, print_advice, print_json, print_table, word

_STATUSES = ["pending", "processing", "done", "failed"]


@click.group(
    cls=ShowingGroup,
    invoke_without_command=True,
    subcommand_metavar="[JOB_ID | retry …]",
    no_args_is_help=False,
)
@click.option(
    "--status", "statuses", multiple=True, type=click.Choice(_STATUSES), help="Only these. Repeatable."
)
@click.option("--source", default="", help="Only this source, e.g. vogue.")
@click.option("-n", "--limit", default=20, show_default=True, help="How many, newest first.")
@json_option
@click.pass_context
def jobs(ctx: click.Context, *, statuses: tuple[str, ...], source: str, limit: int, as_json: bool) -> None:
    """List ingest jobs, or show one with each image's outcome, or run some again.

    A job that is done was `created`, or skipped as a duplicate: then it names the draft or official page
    that it met. A failed one says what was wrong.

    \b
    Examples:
      frontrow jobs
      frontrow jobs --status failed
      frontrow jobs 0198c0de-… --json
      frontrow jobs retry 0198c0de-…
      frontrow jobs retry --reason UNKNOWN_BRAND      after the brand was added
    """
    if ctx.invoked_subcommand is not None:
        return
    query = ingest_service_pb2.ListIngestJobsRequest(
        statuses=[
            ingest_job_pb2.IngestJobStatus.Value(f"INGEST_JOB_STATUS_{name.upper()}") for name in statuses
        ],
        source=source,
        page_size=limit,
    )
    connection: Connection = ctx.obj
    found = connection.run("ingest", _list(connection, query))
    if as_json:
        print_json([as_dict(job) for job in found])
    else:
        print_jobs(found, empty="No jobs. `frontrow submit FILE` makes one.")
        print_advice(advice(found))


@jobs.command(hidden=True)
@click.argument("job_id")
@json_option
@click.pass_obj
def show(connection: Connection, job_id: str, as_json: bool) -> None:
    """Show one job with each image's outcome: `frontrow jobs JOB_ID`."""
    job = connection.run("ingest", _get(connection, job_id))
    if as_json:
        print_json(as_dict(job))
        return
    print_jobs([job], empty="")
    _print_images(job)
    print_advice(advice([job]))


jobs.add_command(retry)


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


def print_jobs(found: Sequence[ingest_job_pb2.IngestJob], *, empty: str) -> None:
    """Print a table of jobs, or what its emptiness means."""
    print_table(
        ["id", "status", "source", "title", "images", "try", "created (UTC)", "outcome"],
        [
            (
                job.job_id,
                word(ingest_job_pb2.IngestJobStatus, job.status, "INGEST_JOB_STATUS_"),
                job.source,
                job.title,
                job.image_count or "",  # none is told by a server that doesn't know
                job.attempts,
                clock(job.create_time),
                outcome(job),
            )
            for job in found
        ],
        empty=empty,
    )


def advice(found: Sequence[ingest_job_pb2.IngestJob]) -> list[str]:
    """Return what to do about the failures of jobs and, where they are told, of their images."""
    reasons = [job.failure_reason for job in found if not any(image.reason for image in job.images)]
    return cured("ingest", reasons + [image.reason for job in found for image in job.images])


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
