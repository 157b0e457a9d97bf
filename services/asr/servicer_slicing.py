"""SlicingService: the worker's side of projects and drafts, fenced by task and version (domain.md 2.10)."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import grpc
import grpc.aio
from frontrow.asr.v1 import slicing_service_pb2 as pb
from frontrow.asr.v1 import slicing_service_pb2_grpc as rpc
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.db import Database
from libs.common.errors import InvalidArgument
from services.asr import repository_run
from services.asr import repository_slicing as repository
from services.asr.convert import parse_id
from services.asr.convert_project import CUT_MODE, DRAFT_FORMAT, MODE, clip_message, clip_values, draft_values
from services.asr.convert_transcript import batches, paragraph_message, topic_message, utterance_message
from services.asr.errors import AsrNotCompleted
from services.asr.repository_draft import clips_of_draft, draft_prefix, get_draft, own_draft_key
from services.asr.repository_project import AnyRow, clips_prefix, not_found

Context = grpc.aio.ServicerContext[Any, Any]


class SlicingServicer(rpc.SlicingServiceServicer):
    """The worker's RPCs; each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def GetSlicingInput(
        self, request: pb.GetSlicingInputRequest, context: Context
    ) -> AsyncIterator[pb.GetSlicingInputResponse]:
        """Begin the run, then stream what it works on; the transaction ends before the first message."""
        run = _run_of(request)
        async with self._database.begin() as session:
            if await repository_run.begin(session, run.owner, run.owner_id, run.fence):
                answers = await _input(session, run)
            else:
                answers = [await _completed(session, run)]
        for answer in answers:
            yield answer

    async def SaveClips(self, request: pb.SaveClipsRequest, context: Context) -> pb.SaveClipsResponse:
        """Replace the clips as a whole and complete the project."""
        project_id, fence = parse_id(request.video_project_id, "video_project_id"), _fence_of(request)
        values = [clip_values(clip, project_id, position) for position, clip in enumerate(request.clips)]
        _check_clips(values, project_id)
        async with self._database.begin() as session:
            await repository.save_clips(session, project_id, fence, values, request.clips_source)
        return pb.SaveClipsResponse()

    async def SaveDraft(self, request: pb.SaveDraftRequest, context: Context) -> pb.SaveDraftResponse:
        """Store the draft and complete what the run works on."""
        run = _run_of(request)
        prefix = draft_prefix(run.project_id, run.draft_id)
        if not request.draft.media_key.startswith(prefix):
            raise InvalidArgument.of_field("draft.media_key", f"must begin with {prefix}")
        values = draft_values(request.draft)
        async with self._database.begin() as session:
            await repository.save_draft(session, run.project_id, run.draft_id, run.fence, values)
        return pb.SaveDraftResponse()

    async def FailSlicing(self, request: pb.FailSlicingRequest, context: Context) -> pb.FailSlicingResponse:
        """Note why the run failed; its row is failed now unless the run will be tried again."""
        run = _run_of(request)
        async with self._database.begin() as session:
            await repository_run.fail(
                session,
                run.owner,
                run.owner_id,
                run.fence,
                reason=request.reason,
                message=request.message,
                retryable=request.retryable,
            )
        return pb.FailSlicingResponse()


@dataclass(frozen=True)
class _Run:
    """A run as its requests name it; `draft_id` is None when it works on the project itself."""

    project_id: UUID
    draft_id: UUID | None
    fence: repository_run.Fence

    @property
    def owner(self) -> repository_run.Owner:
        """The rows that the run works for."""
        return repository_run.DRAFTS if self.draft_id else repository_run.PROJECTS

    @property
    def owner_id(self) -> UUID:
        """The row that the run works for."""
        return self.draft_id or self.project_id


def _run_of(request: pb.GetSlicingInputRequest | pb.SaveDraftRequest | pb.FailSlicingRequest) -> _Run:
    draft = request.editing_draft_id
    return _Run(
        project_id=parse_id(request.video_project_id, "video_project_id"),
        draft_id=parse_id(draft, "editing_draft_id") if draft else None,
        fence=_fence_of(request),
    )


def _fence_of(
    request: pb.GetSlicingInputRequest | pb.SaveClipsRequest | pb.SaveDraftRequest | pb.FailSlicingRequest,
) -> repository_run.Fence:
    return parse_id(request.task_id, "task_id"), request.task_version


def _check_clips(values: list[dict[str, Any]], project_id: UUID) -> None:
    """Refuse clips that no row could hold or that lie outside the project's own folder of objects."""
    prefix = clips_prefix(project_id)
    if len({value["id"] for value in values}) < len(values):
        raise InvalidArgument.of_field("clips", "must have ids that differ")
    for i, value in enumerate(values):
        if not 0 <= value["start_ms"] < value["end_ms"]:
            raise InvalidArgument.of_field(f"clips[{i}].end_ms", "must be after a start_ms of 0 or more")
        if not value["media_key"].startswith(prefix):
            raise InvalidArgument.of_field(f"clips[{i}].media_key", f"must begin with {prefix}")
        if value["thumbnail_key"] and not value["thumbnail_key"].startswith(prefix):
            raise InvalidArgument.of_field(f"clips[{i}].thumbnail_key", f"must begin with {prefix}")


async def _completed(session: AsyncSession, run: _Run) -> pb.GetSlicingInputResponse:
    """Answer a run whose task has given its result already: only the draft's address may be missing."""
    if run.draft_id is not None:
        key = (await get_draft(session, run.draft_id)).media_key
    else:
        key = await own_draft_key(session, run.project_id, run.fence[0])
    header = pb.SlicingHeader(state=pb.SLICING_STATE_ALREADY_COMPLETED, draft_key=key)
    return pb.GetSlicingInputResponse(header=header)


async def _input(session: AsyncSession, run: _Run) -> list[pb.GetSlicingInputResponse]:
    """Read the run's input as the messages of its stream.

    Raises:
        AsrNotCompleted: the transcript or the canonical recording is gone meanwhile; nothing has begun.
        VideoProjectNotFound, ClipNotFound: the draft isn't of that project, or a clip of it.
    """
    row = await repository.slicing_input(session, run.project_id)
    draft = await get_draft(session, run.draft_id) if run.draft_id else None
    if draft is not None and draft.video_project_id != run.project_id:
        raise not_found(run.project_id)
    if row.asr_raw is None or not (row.canonical_key or draft):
        raise AsrNotCompleted("the material has no transcript or no canonical recording any more")
    start, end = row.span_start_ms, row.span_end_ms
    said = [(i, u) for i, u in enumerate(row.asr_raw) if u["s"] < end and u["e"] > start]
    topics = [(i, t) for i, t in enumerate(row.asr_summaries) if t["start_ms"] < end and t["end_ms"] > start]
    written = await repository.paragraphs(session, row.live_material_id, start, end)
    saved = await clips_of_draft(session, run.project_id, draft.clip_ids if draft else [])
    parts = [
        *(pb.SlicingBatch(utterances=some) for some in batches(utterance_message(i, u) for i, u in said)),
        *(pb.SlicingBatch(topics=some) for some in batches(topic_message(i, t) for i, t in topics)),
        *(pb.SlicingBatch(paragraphs=some) for some in batches(paragraph_message(p) for p in written)),
        *(pb.SlicingBatch(clips=some) for some in batches(clip_message(clip) for clip in saved)),
    ]
    header = _header(row)
    if draft is not None or row.draft_format:
        header.draft_format = DRAFT_FORMAT[draft.format if draft else row.draft_format]
        header.draft_root = draft.draft_root if draft else row.draft_root
        header.draft_prefix = draft_prefix(run.project_id, run.draft_id)
    answers = [pb.GetSlicingInputResponse(batch=part) for part in parts]
    return [pb.GetSlicingInputResponse(header=header), *answers]


def _header(row: AnyRow) -> pb.SlicingHeader:
    before = [u["e"] for u in row.asr_raw if u["e"] <= row.span_start_ms]
    after = [u["s"] for u in row.asr_raw if u["s"] >= row.span_end_ms]
    return pb.SlicingHeader(
        state=pb.SLICING_STATE_BEGUN,
        canonical_key=row.canonical_key,
        duration_ms=row.duration_ms,
        width=row.width,
        height=row.height,
        span_start_ms=row.span_start_ms,
        span_end_ms=row.span_end_ms,
        prompt=row.prompt,
        keywords=row.keywords,
        name=row.name,
        live_material_name=row.live_material_name,
        speech_before_end_ms=max(before, default=0),
        speech_after_start_ms=min(after, default=0),
        mode=MODE[row.mode],
        cut_mode=CUT_MODE[row.cut_mode],
    )
