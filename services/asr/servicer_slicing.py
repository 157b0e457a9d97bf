"""SlicingService: the worker's side of a video project, fenced by task and version (domain.md 2.10)."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import grpc
import grpc.aio
from frontrow.asr.v1 import slicing_service_pb2 as pb
from frontrow.asr.v1 import slicing_service_pb2_grpc as rpc
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.db import Database
from libs.common.errors import InvalidArgument
from services.asr import repository_slicing as repository
from services.asr.convert import parse_id
from services.asr.convert_project import clip_values
from services.asr.convert_transcript import batches, paragraph_message, topic_message, utterance_message
from services.asr.errors import AsrNotCompleted
from services.asr.repository_project import AnyRow, clips_prefix

Context = grpc.aio.ServicerContext[Any, Any]


class SlicingServicer(rpc.SlicingServiceServicer):
    """The worker's RPCs; each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def GetSlicingInput(
        self, request: pb.GetSlicingInputRequest, context: Context
    ) -> AsyncIterator[pb.GetSlicingInputResponse]:
        """Begin the run, then stream what it works on; the transaction ends before the first message."""
        project_id, (task_id, version) = _run_of(request)
        async with self._database.begin() as session:
            begun = await repository.begin(session, project_id, task_id, version)
            answers = await _input(session, project_id) if begun else []
        if not begun:
            header = pb.SlicingHeader(state=pb.SLICING_STATE_ALREADY_COMPLETED)
            yield pb.GetSlicingInputResponse(header=header)
        for answer in answers:
            yield answer

    async def SaveClips(self, request: pb.SaveClipsRequest, context: Context) -> pb.SaveClipsResponse:
        """Replace the clips as a whole and complete the project."""
        project_id, fence = _run_of(request)
        values = [clip_values(clip, project_id, position) for position, clip in enumerate(request.clips)]
        _check_clips(values, project_id)
        async with self._database.begin() as session:
            await repository.save_clips(session, project_id, fence, values, request.clips_source)
        return pb.SaveClipsResponse()

    async def FailSlicing(self, request: pb.FailSlicingRequest, context: Context) -> pb.FailSlicingResponse:
        """Note why the run failed; the project is failed now unless the run will be tried again."""
        project_id, fence = _run_of(request)
        async with self._database.begin() as session:
            await repository.fail(
                session,
                project_id,
                fence,
                reason=request.reason,
                message=request.message,
                retryable=request.retryable,
            )
        return pb.FailSlicingResponse()


def _run_of(
    request: pb.GetSlicingInputRequest | pb.SaveClipsRequest | pb.FailSlicingRequest,
) -> tuple[UUID, repository.Fence]:
    project_id = parse_id(request.video_project_id, "video_project_id")
    return project_id, (parse_id(request.task_id, "task_id"), request.task_version)


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


async def _input(session: AsyncSession, project_id: UUID) -> list[pb.GetSlicingInputResponse]:
    """Read the run's input as the messages of its stream.

    Raises:
        AsrNotCompleted: the transcript or the canonical recording is gone meanwhile; nothing has begun.
    """
    row = await repository.slicing_input(session, project_id)
    if row.asr_raw is None or not row.canonical_key:
        raise AsrNotCompleted("the material has no transcript or no canonical recording any more")
    start, end = row.span_start_ms, row.span_end_ms
    said = [(i, u) for i, u in enumerate(row.asr_raw) if u["s"] < end and u["e"] > start]
    topics = [(i, t) for i, t in enumerate(row.asr_summaries) if t["start_ms"] < end and t["end_ms"] > start]
    written = await repository.paragraphs(session, row.live_material_id, start, end)
    parts = [
        *(pb.SlicingBatch(utterances=some) for some in batches(utterance_message(i, u) for i, u in said)),
        *(pb.SlicingBatch(topics=some) for some in batches(topic_message(i, t) for i, t in topics)),
        *(pb.SlicingBatch(paragraphs=some) for some in batches(paragraph_message(p) for p in written)),
    ]
    header = pb.GetSlicingInputResponse(header=_header(row))
    return [header, *(pb.GetSlicingInputResponse(batch=part) for part in parts)]


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
    )
