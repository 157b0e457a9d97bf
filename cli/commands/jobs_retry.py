"""`frontrow jobs retry`: run ingest jobs again, by id or by reason."""

from collections.abc import Sequence

import click
from frontrow.ingest.v1 import ingest_job_pb2, ingest_service_pb2, ingest_service_pb2_grpc

from cli.connection import Connection
from cli.output import as_dict, console, json_option, print_json, print_table, several
from cli.paging import pages

_PAGE = 200
_DONE = {
    "SOURCE_DUPLICATE": ingest_job_pb2.DONE_REASON_SOURCE_DUPLICATE,
    "SOURCE_CONFLICT": ingest_job_pb2.DONE_REASON_SOURCE_CONFLICT,
    "ENTITY_DUPLICATE": ingest_job_pb2.DONE_REASON_ENTITY_DUPLICATE,
}


@click.command()
@click.argument("job_ids", nargs=-1, metavar="[JOB_ID]...")
@click.option(
    "--reason",
    "reasons",
    multiple=True,
    metavar="REASON",
    help="All jobs that ended for it, as `frontrow jobs` shows it. Repeatable.",
)
@click.option("--source", default="", help="With --reason: only this source, e.g. vogue.")
@json_option
@click.pass_obj
def retry(
    connection: Connection, job_ids: tuple[str, ...], *, reasons: tuple[str, ...], source: str, as_json: bool
) -> None:
    """Run failed jobs again, and duplicates that nothing stands in the way of any more.

    Images that were stored are not fetched again. Jobs that can't be run again are named, with what still
    stands in the way.

    \b
    Examples:
      frontrow jobs retry 0198c0de-… 0198c0df-…
      frontrow jobs retry --reason UNKNOWN_BRAND
      frontrow jobs retry --reason source_duplicate --source vogue
    """
    request = retry_request(job_ids, reasons, source)
    answer = connection.run("ingest", _retry(connection, request))
    if as_json:
        print_json(as_dict(answer))
        return
    count = len(answer.retried_job_ids)
    console.print(f"{several(count, 'job')} run{'s' if count == 1 else ''} again.", highlight=False)
    if answer.skipped:
        print_table(
            ["not run again", "reason", "why"],
            [(skip.job_id, skip.reason, skip.message) for skip in answer.skipped],
            empty="",
        )
    elif not count:
        console.print("  No job ended so; `frontrow jobs --status failed` shows reasons.")


def retry_request(
    job_ids: Sequence[str], reasons: Sequence[str], source: str
) -> ingest_service_pb2.RetryIngestJobsRequest:
    """Return the request for some ids, or for all jobs that ended for one of some reasons.

    A reason's name tells a failure from a kind of duplicate. Raises UsageError unless exactly one of ids and
    reasons is given, and for reasons of both sorts, which no job can have.
    """
    if bool(job_ids) == bool(reasons):
        raise click.UsageError("name jobs by id, or by --reason (one of the two); `frontrow jobs` shows both")
    if job_ids:
        if source:
            raise click.UsageError("--source goes with --reason: a job with an id has the source that it has")
        return ingest_service_pb2.RetryIngestJobsRequest(job_ids=job_ids)
    named = [reason.strip().upper() for reason in reasons]
    done = [_DONE[reason] for reason in named if reason in _DONE]
    failed = [reason for reason in named if reason not in _DONE]
    if done and failed:
        raise click.UsageError("failures and duplicates in two calls, please: no job is both")
    wanted = ingest_service_pb2.RetryFilter(failure_reasons=failed, done_reasons=done, source=source)
    return ingest_service_pb2.RetryIngestJobsRequest(filter=wanted, page_size=_PAGE)


async def _retry(
    connection: Connection, request: ingest_service_pb2.RetryIngestJobsRequest
) -> ingest_service_pb2.RetryIngestJobsResponse:
    """Retry page by page and return the sum."""
    total = ingest_service_pb2.RetryIngestJobsResponse()
    async with connection.channel("ingest") as channel:
        stub = ingest_service_pb2_grpc.IngestServiceStub(channel)
        async for page in pages(stub.RetryIngestJobs, request):
            total.retried_job_ids.extend(page.retried_job_ids)
            total.skipped.extend(page.skipped)
    return total
