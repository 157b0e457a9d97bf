"""RPCs of the ASR worker: begin, parts, progress, result, failure."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any, TypeVar
from uuid import UUID

import grpc.aio
from frontrow.asr.v1 import transcript_pb2
from frontrow.asr.v1 import transcription_service_pb2 as pb
from frontrow.asr.v1.transcription_service_pb2_grpc import TranscriptionServiceServicer

from libs.common.db import Database
from libs.common.errors import InvalidArgument
from services.asr import (
    convert,
    repository_debug,
    repository_fetch,
    repository_leftovers,
    repository_material,
)
from services.asr import repository_transcription as repository
from services.asr.convert_transcript import (
    batches,
    paragraph_values,
    topic_json,
    utterance_json,
    utterance_message,
)
from services.asr.fetches import Fetches
from services.asr.states import Begin
from services.asr.streams import PART_BYTES, RESULT_BYTES, bounded
from services.asr.transcript_terms import terms_of

T = TypeVar("T")
Context = grpc.aio.ServicerContext[Any, Any]


class TranscriptionServicer(TranscriptionServiceServicer):
    """TranscriptionService over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._fetches = Fetches(database)

    async def BeginTranscription(
        self, request: pb.BeginTranscriptionRequest, context: Context
    ) -> pb.BeginTranscriptionResponse:
        """Begin a run, or say that this task has its result already."""
        material_id = convert.parse_id(request.material_id, "material_id")
        task_id = convert.parse_id(request.task_id, "task_id")
        async with self._database.begin() as session:
            decision, row = await repository.begin(session, material_id, task_id, request.task_version)
            if decision is Begin.BEGIN:
                await repository_leftovers.doom_of_earlier_runs(session, material_id, row.asr_version)
                await repository_debug.started(session, material_id, row.asr_version)
            indices = await repository.part_indices(session, material_id)
            fetch = await repository_fetch.state(session, row.upload_id) if not row.media_key else None
        finished = decision is Begin.ALREADY_COMPLETED
        return pb.BeginTranscriptionResponse(
            state=pb.BEGIN_STATE_ALREADY_COMPLETED if finished else pb.BEGIN_STATE_BEGUN,
            asr_version=row.asr_version,
            part_indices=indices,
            media_key=row.media_key,
            file_name=row.file_name,
            size_bytes=row.size_bytes,
            live_material_name=row.name,
            fetch=convert.fetch_message(*fetch) if fetch else None,
        )

    async def SaveFetchedPiece(
        self, request: pb.SaveFetchedPieceRequest, context: Context
    ) -> pb.SaveFetchedPieceResponse:
        """Keep a piece of the recording that the current run fetches."""
        return pb.SaveFetchedPieceResponse(committed_bytes=await self._fetches.save_piece(request))

    async def FinishFetch(self, request: pb.FinishFetchRequest, context: Context) -> pb.FinishFetchResponse:
        """Give the material the recording that the current run has fetched."""
        await self._fetches.finish(request)
        return pb.FinishFetchResponse()

    async def GetTranscriptParts(
        self, request: pb.GetTranscriptPartsRequest, context: Context
    ) -> AsyncIterator[pb.GetTranscriptPartsResponse]:
        """Stream the parts kept, one read at a time."""
        material_id = convert.parse_id(request.material_id, "material_id")
        async with self._database.begin() as session:
            await repository.lock_live(session, material_id, request.asr_version)
            indices = await repository.part_indices(session, material_id)
        for index in indices:
            async with self._database.begin() as session:
                row = await repository.get_part(session, material_id, index)
            if row is None:
                continue
            kept = [utterance_message(number, item) for number, item in enumerate(row.utterances)]
            for some in [*batches(kept)] or [[]]:
                part = transcript_pb2.TranscriptPart(
                    index=index,
                    start_ms=row.start_ms,
                    end_ms=row.end_ms,
                    engine=row.engine,
                    language=row.language,
                    made_with=row.made_with,
                    utterances=some,
                )
                yield pb.GetTranscriptPartsResponse(part=part)

    async def UpdateTranscriptionProgress(
        self, request: pb.UpdateTranscriptionProgressRequest, context: Context
    ) -> pb.UpdateTranscriptionProgressResponse:
        """Raise the progress of the current run."""
        material_id = convert.parse_id(request.material_id, "material_id")
        async with self._database.begin() as session:
            await repository.update_progress(session, material_id, request.asr_version, request.progress)
        return pb.UpdateTranscriptionProgressResponse()

    async def SaveTranscriptPart(
        self, request_iterator: AsyncIterator[pb.SaveTranscriptPartRequest], context: Context
    ) -> pb.SaveTranscriptPartResponse:
        """Keep one chunk's result as a whole."""
        header: pb.TranscriptPartHeader | None = None
        utterances: list[dict[str, Any]] = []
        async for request in bounded(request_iterator, PART_BYTES):
            if request.WhichOneof("item") == "header":
                header = _once(header, request.header)
            else:
                utterances += map(utterance_json, request.utterances.utterances)
        if header is None:
            raise InvalidArgument.of_field("header", "must be the first message of the stream")
        _check_span(header.part.start_ms, header.part.end_ms)
        material_id = convert.parse_id(header.material_id, "header.material_id")
        values = {
            "material_id": material_id,
            "part": header.part.index,
            "asr_version": header.asr_version,
            "start_ms": header.part.start_ms,
            "end_ms": header.part.end_ms,
            "engine": header.part.engine,
            "language": header.part.language,
            "made_with": header.part.made_with,
            "utterances": utterances,
        }
        async with self._database.begin() as session:
            await repository.lock_live(session, material_id, header.asr_version)
            await repository.save_part(session, values)
        return pb.SaveTranscriptPartResponse()

    async def CompleteTranscription(
        self, request_iterator: AsyncIterator[pb.CompleteTranscriptionRequest], context: Context
    ) -> pb.CompleteTranscriptionResponse:
        """Store the result as a whole and complete the material, in one transaction."""
        result: pb.TranscriptionResult | None = None
        utterances: list[dict[str, Any]] = []
        paragraphs: list[dict[str, Any]] = []
        topics: list[dict[str, Any]] = []
        async for request in bounded(request_iterator, RESULT_BYTES):
            if request.WhichOneof("item") == "result":
                result = _once(result, request.result)
                continue
            utterances += map(utterance_json, request.batch.utterances)
            paragraphs += map(paragraph_values, request.batch.paragraphs)
            topics += map(topic_json, request.batch.topics)
        if result is None:
            raise InvalidArgument.of_field("result", "must be the first message of the stream")
        _check_counts(result, len(utterances), paragraphs, topics)
        await self._store(result, utterances, paragraphs, topics)
        return pb.CompleteTranscriptionResponse()

    async def _store(
        self,
        result: pb.TranscriptionResult,
        utterances: list[dict[str, Any]],
        paragraphs: list[dict[str, Any]],
        topics: list[dict[str, Any]],
    ) -> None:
        material_id = convert.parse_id(result.material_id, "result.material_id")
        material = {
            "duration_ms": result.duration_ms,
            "width": result.width,
            "height": result.height,
            "canonical_key": result.canonical_key,
            "missing_seconds": result.missing_seconds,
            "audio_tracks": list(map(convert.audio_track_json, result.audio_tracks)),
        }
        transcript = {
            "engine": result.engine,
            "language": result.language,
            "summaries_source": result.summaries_source,
            "asr_raw": utterances,
            "asr_summaries": topics,
            "utterance_count": len(utterances),
        }
        # a fraction of a second for each hour of speech, which no transaction and no other call waits for
        found_by = await asyncio.to_thread(_found_by, paragraphs)
        async with self._database.begin() as session:
            before = (await repository_material.get(session, material_id, for_update=True)).canonical_key
            if await repository.complete(session, material_id, result.asr_version, material, transcript):
                await repository.add_paragraphs(session, material_id, found_by)
                await repository_leftovers.replaced(session, material_id, before, result.canonical_key)
                await repository_leftovers.doom_of_earlier_runs(session, material_id, result.asr_version)
                await repository_debug.ended(session, material_id, result.asr_version, "completed")

    async def FailTranscription(
        self, request: pb.FailTranscriptionRequest, context: Context
    ) -> pb.FailTranscriptionResponse:
        """Store a failure with its reason."""
        material_id: UUID = convert.parse_id(request.material_id, "material_id")
        values = {"reason": request.reason, "message": request.message, "progress": request.progress}
        async with self._database.begin() as session:
            await repository.fail(
                session, material_id, request.asr_version, values, retryable=request.retryable
            )
            await repository_leftovers.doom_of_runs(session, material_id, [request.asr_version])
            await repository_debug.ended(session, material_id, request.asr_version, "failed")
        return pb.FailTranscriptionResponse()


def _found_by(paragraphs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add to paragraphs what they are found by."""
    return [paragraph | asdict(terms_of(paragraph["text"])) for paragraph in paragraphs]


def _once(seen: T | None, header: T) -> T:
    if seen is not None:
        raise InvalidArgument("the first message of the stream came twice")
    return header


def _check_span(start_ms: int, end_ms: int) -> None:
    if not 0 <= start_ms < end_ms:
        raise InvalidArgument.of_field("header.part", "must have 0 <= start_ms < end_ms")


def _check_counts(
    result: pb.TranscriptionResult,
    utterance_count: int,
    paragraphs: list[dict[str, Any]],
    topics: list[dict[str, Any]],
) -> None:
    """Refuse a result that lost something on its way, or that does not cover every utterance exactly once.

    Raises:
        InvalidArgument: counts or indices don't add up.
    """
    announced = (result.utterance_count, result.paragraph_count, result.topic_count)
    came = (utterance_count, len(paragraphs), len(topics))
    if announced != came:
        raise InvalidArgument(f"announced {announced} utterances, paragraphs and topics, but {came} came")
    covered = 0
    for index, paragraph in enumerate(paragraphs):
        in_order = paragraph["paragraph"] == index and paragraph["first_utterance"] == covered
        if not in_order or paragraph["utterance_count"] < 1:
            raise InvalidArgument.of_field(f"batch.paragraphs[{index}]", "must follow the one before it")
        covered += paragraph["utterance_count"]
    if covered != utterance_count:
        raise InvalidArgument.of_field("batch.paragraphs", "must cover every utterance")
    next_first = 0
    for index, topic in enumerate(topics):
        if topic["first"] != next_first or topic["count"] < 1:
            raise InvalidArgument.of_field(f"batch.topics[{index}]", "must follow the one before it")
        next_first += topic["count"]
    if topics and next_first != utterance_count:
        raise InvalidArgument.of_field("batch.topics", "must cover every utterance")
