"""`frontrow purge`: remove the test data of a source, in the order that leaves nothing half."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field

import click
import grpc
from frontrow.ingest.v1 import ingest_job_pb2, ingest_service_pb2, ingest_service_pb2_grpc
from frontrow.review.v1 import draft_pb2, draft_service_pb2, draft_service_pb2_grpc
from frontrow.task.v1 import task_service_pb2, task_service_pb2_grpc

from cli.connection import CALL_SECONDS, Connection
from cli.output import console, json_option, print_json, several
from cli.paging import pages
from libs.common.client import reason_of

_KINDS = (draft_pb2.GALLERY_KIND_RUNWAY, draft_pb2.GALLERY_KIND_STREET_SNAP)
_OPEN = (ingest_job_pb2.INGEST_JOB_STATUS_PENDING, ingest_job_pb2.INGEST_JOB_STATUS_PROCESSING)
_PAGE = 500
_POLL_SECONDS = 0.5
# A run that was asked to stop learns of it by its next beat, or loses its lease.
_OPEN_JOB_SECONDS = 180.0


@dataclass
class Purged:
    """What was found, or removed: tasks of jobs under way, drafts by status, ended jobs."""

    source: str
    applied: bool
    open_jobs: int = 0
    drafts: dict[str, int] = field(default_factory=dict)
    jobs: int = 0


@click.command()
@click.option("--source", required=True, help="The source whose galleries go, e.g. test-site.")
@click.option("--reason", default="test data", show_default=True, help="Why; kept in each draft's history.")
@click.option("--apply", is_flag=True, help="Do it; without this it only reports.")
@json_option
@click.pass_obj
def purge(connection: Connection, *, source: str, reason: str, apply: bool, as_json: bool) -> None:
    """Remove all that came in from a source: running work, drafts of any status, jobs.

    In this order: tasks of open jobs are cancelled, drafts are purged (official pages lose their images and
    are hidden when no other draft feeds them), then the jobs go. Stored images stay until the clean-up finds
    that nothing refers to them. Only --apply writes. It can't be undone; each step is kept in the histories
    with your name. Stopped half-way, it can be said again.

    \b
    Examples:
      frontrow purge --source test-site              what would go
      frontrow purge --source test-site --apply      let it go
      frontrow media cleanup --apply                 afterwards, twice, a day apart: its images
    """
    found = connection.run("ingest", _purge(connection, source, reason, apply=apply))
    if as_json:
        print_json(asdict(found))
        return
    console.print(words(found), markup=False, highlight=False)


def words(found: Purged) -> str:
    """Return what was found or removed, in a sentence and what comes next."""
    drafts = ", ".join(f"{count} {status}" for status, count in sorted(found.drafts.items()))
    numbers = (
        f"{several(found.open_jobs, 'job')} under way, {several(sum(found.drafts.values()), 'draft')}"
        f"{f' ({drafts})' if drafts else ''}, {several(found.jobs, 'ended job')} of {found.source}"
    )
    if not found.applied:
        return f"Would go: {numbers}.\n  frontrow purge --source {found.source} --apply   lets them go"
    return (
        f"Gone: {numbers}.\n  frontrow media cleanup --apply   removes the images that nothing refers to now"
    )


async def _purge(connection: Connection, source: str, reason: str, *, apply: bool) -> Purged:
    async with AsyncExitStack() as stack:
        to_ingest, to_review, to_task = [
            await stack.enter_async_context(connection.channel(context))
            for context in ("ingest", "review", "task")
        ]
        found = Purged(source, apply)
        await _stop_open(to_ingest, to_task, found)
        await _drafts(to_review, found, reason)
        await _jobs(to_ingest, found)
        return found


async def _stop_open(to_ingest: grpc.aio.Channel, to_task: grpc.aio.Channel, found: Purged) -> None:
    """Count the jobs that wait or run; when it is meant, cancel their tasks and wait for their ends."""
    stub, tasks = (
        ingest_service_pb2_grpc.IngestServiceStub(to_ingest),
        task_service_pb2_grpc.TaskServiceStub(to_task),
    )
    waiting = await _open_jobs(stub, found.source)
    found.open_jobs = len(waiting)
    if not found.applied:
        return
    try:
        async with asyncio.timeout(_OPEN_JOB_SECONDS):
            while waiting:
                for job in waiting:
                    await _cancel(tasks, job.task_id)
                await asyncio.sleep(_POLL_SECONDS)
                waiting = await _open_jobs(stub, found.source)
    except TimeoutError as error:
        raise click.ClickException(
            f"{several(len(waiting), 'job')} of {found.source} have not ended within"
            f" {_OPEN_JOB_SECONDS:.0f} s; nothing was removed. `frontrow why {waiting[0].task_id}` tells why"
        ) from error


async def _cancel(tasks: "task_service_pb2_grpc.TaskServiceAsyncStub", task_id: str) -> None:
    """Cancel a task; one that has ended, or is only ordered yet, is looked at again."""
    try:
        await tasks.CancelTask(task_service_pb2.CancelTaskRequest(task_id=task_id), timeout=CALL_SECONDS)
    except grpc.aio.AioRpcError as error:
        if reason_of(error) not in {"TASK_NOT_CANCELLABLE", "TASK_NOT_FOUND"}:
            raise


async def _open_jobs(
    stub: "ingest_service_pb2_grpc.IngestServiceAsyncStub", source: str
) -> Sequence[ingest_job_pb2.IngestJob]:
    request = ingest_service_pb2.ListIngestJobsRequest(source=source, statuses=_OPEN, page_size=1000)
    return [job async for page in pages(stub.ListIngestJobs, request) for job in page.jobs]


async def _drafts(to_review: grpc.aio.Channel, found: Purged, reason: str) -> None:
    """Count the drafts by status, deleted ones as such; when it is meant, purge each."""
    stub = draft_service_pb2_grpc.DraftServiceStub(to_review)
    for kind in _KINDS:
        request = draft_service_pb2.ListDraftsRequest(
            kind=kind, source=found.source, show_deleted=True, page_size=_PAGE
        )
        async for page in pages(stub.ListDrafts, request):
            for draft in page.drafts:
                await _draft(stub, draft, found, reason)


async def _draft(
    stub: "draft_service_pb2_grpc.DraftServiceAsyncStub", draft: draft_pb2.Draft, found: Purged, reason: str
) -> None:
    name = draft_pb2.DraftStatus.Name(draft.status).removeprefix("DRAFT_STATUS_").lower()
    status = "deleted" if draft.deleted else name
    if found.applied:
        purge_it = draft_service_pb2.PurgeDraftRequest(
            kind=draft.kind, draft_id=draft.draft_id, etag=draft.etag, reason=reason
        )
        await stub.PurgeDraft(purge_it, timeout=CALL_SECONDS)
    found.drafts[status] = found.drafts.get(status, 0) + 1


async def _jobs(to_ingest: grpc.aio.Channel, found: Purged) -> None:
    stub = ingest_service_pb2_grpc.IngestServiceStub(to_ingest)
    request = ingest_service_pb2.PurgeIngestJobsRequest(source=found.source, apply=found.applied)
    while True:
        answer = await stub.PurgeIngestJobs(request, timeout=60.0)
        found.jobs += answer.job_count
        if not answer.more:
            return
