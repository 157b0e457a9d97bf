"""Typed calls of the ASR worker to the asr context; transport troubles are told apart from refusals."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import grpc
import grpc.aio
import structlog
from frontrow.asr.v1 import transcript_pb2
from frontrow.asr.v1 import transcription_service_pb2 as pb
from frontrow.asr.v1.transcription_service_pb2_grpc import TranscriptionServiceStub

from libs.common.client import is_outage, reading, reason_of
from libs.common.loops import backoff_seconds
from libs.common.redaction import redacted
from libs.common.storable import storable
from services.asr.media.probe import AudioTrack
from services.asr.worker import messages
from services.asr.worker.speech import Paragraph, Part, Topic, Utterance

log = structlog.get_logger(__name__)

T = TypeVar("T")

_CALL_SECONDS = 10.0
_STREAM_SECONDS = 120.0
_ATTEMPTS = 5


class RunLost(Exception):
    """The asr context says that this run is not the current one any more: stop at once."""


class NotWanted(Exception):
    """The material is gone or another task is its current one: the task has no use any more."""


class AsrUnreachable(Exception):
    """The asr context could not be reached, several times in a row."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stored piece of a recording."""

    object_key: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Fetch:
    """A recording that is to be fetched from the web, and what earlier runs kept of it."""

    url: str
    upload_id: str
    pieces: tuple[Piece, ...]
    validator: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Begun:
    """What a begin answered; `fetch` is None when the recording is stored."""

    already_completed: bool
    asr_version: int
    part_indices: tuple[int, ...]
    media_key: str
    fetch: Fetch | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """A run's result; `audio_order` is the order of the track that was transcribed."""

    duration_ms: int
    width: int
    height: int
    canonical_key: str
    engine: str
    language: str
    summaries_source: str
    missing_seconds: float
    audio_tracks: Sequence[AudioTrack]
    audio_order: int
    utterances: Sequence[Utterance]
    paragraphs: Sequence[Paragraph]
    topics: Sequence[Topic]


class AsrPeer:
    """TranscriptionService over one channel, which the caller owns and closes.

    Every call may raise `RunLost`, `NotWanted` or `AsrUnreachable`; each is repeated some times while the
    service is out of reach, since all of them are idempotent.
    """

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = TranscriptionServiceStub(channel)

    async def begin(self, material_id: str, task_id: str, task_version: int) -> Begun:
        """Begin the run of a claimed task."""
        request = pb.BeginTranscriptionRequest(
            material_id=material_id, task_id=task_id, task_version=task_version
        )
        answer = await _patiently(lambda: self._stub.BeginTranscription(request, timeout=_CALL_SECONDS))
        return Begun(
            already_completed=answer.state == pb.BEGIN_STATE_ALREADY_COMPLETED,
            asr_version=answer.asr_version,
            part_indices=tuple(answer.part_indices),
            media_key=answer.media_key,
            fetch=_fetch(answer.fetch) if answer.HasField("fetch") else None,
        )

    async def save_piece(
        self,
        material_id: str,
        asr_version: int,
        offset: int,
        piece: Piece,
        *,
        validator: str,
        total_bytes: int,
    ) -> None:
        """Have a stored piece of the recording noted; repeatable."""
        request = pb.SaveFetchedPieceRequest(
            material_id=material_id,
            asr_version=asr_version,
            offset=offset,
            piece=pb.FetchedPiece(object_key=piece.object_key, size_bytes=piece.size_bytes),
            validator=validator,
            total_bytes=total_bytes,
        )
        await _patiently(lambda: self._stub.SaveFetchedPiece(request, timeout=_CALL_SECONDS))

    async def finish_fetch(
        self, material_id: str, asr_version: int, media_key: str, *, size_bytes: int, sha1: str
    ) -> None:
        """Give the material its whole recording; repeatable."""
        request = pb.FinishFetchRequest(
            material_id=material_id,
            asr_version=asr_version,
            media_key=media_key,
            size_bytes=size_bytes,
            sha1=sha1,
        )
        await _patiently(lambda: self._stub.FinishFetch(request, timeout=_CALL_SECONDS))

    async def parts(self, material_id: str, asr_version: int) -> dict[int, Part]:
        """Read the parts kept from earlier runs, by index."""
        request = pb.GetTranscriptPartsRequest(material_id=material_id, asr_version=asr_version)

        async def read() -> dict[int, Part]:
            found: dict[int, Part] = {}
            async with reading(self._stub.GetTranscriptParts(request, timeout=_STREAM_SECONDS)) as answers:
                async for answer in answers:
                    part = messages.part_of(answer.part)
                    before = found.get(part.span.index)
                    if before is not None:
                        both = before.utterances + part.utterances
                        part = replace(part, utterances=both)
                    found[part.span.index] = part
            return found

        return await _patiently(read)

    async def progress(self, material_id: str, asr_version: int, percent: int) -> None:
        """Report progress once; not repeated, since the next report says more."""
        request = pb.UpdateTranscriptionProgressRequest(
            material_id=material_id, asr_version=asr_version, progress=percent
        )
        await _patiently(
            lambda: self._stub.UpdateTranscriptionProgress(request, timeout=_CALL_SECONDS), attempts=1
        )

    async def save_part(self, material_id: str, asr_version: int, part: Part) -> None:
        """Keep one chunk's result."""
        described = transcript_pb2.TranscriptPart(
            index=part.span.index,
            start_ms=part.span.start_ms,
            end_ms=part.span.end_ms,
            engine=part.engine,
            language=part.language,
            made_with=part.made_with,
        )
        header = pb.TranscriptPartHeader(material_id=material_id, asr_version=asr_version, part=described)

        def stream() -> Iterator[pb.SaveTranscriptPartRequest]:
            yield pb.SaveTranscriptPartRequest(header=header)
            for some in messages.batches(messages.utterances(part.utterances)):
                yield pb.SaveTranscriptPartRequest(utterances=pb.PartUtterances(utterances=some))

        await _patiently(
            lambda: self._stub.SaveTranscriptPart(messages.streamed(stream()), timeout=_STREAM_SECONDS)
        )

    async def complete(self, material_id: str, asr_version: int, result: Result) -> None:
        """Store the result; repeatable."""
        header = pb.TranscriptionResult(
            material_id=material_id,
            asr_version=asr_version,
            duration_ms=result.duration_ms,
            width=result.width,
            height=result.height,
            canonical_key=result.canonical_key,
            engine=result.engine,
            language=result.language,
            summaries_source=result.summaries_source,
            missing_seconds=result.missing_seconds,
            audio_tracks=messages.audio_tracks(result.audio_tracks, result.audio_order),
            utterance_count=len(result.utterances),
            paragraph_count=len(result.paragraphs),
            topic_count=len(result.topics),
        )

        def stream() -> Iterator[pb.CompleteTranscriptionRequest]:
            yield pb.CompleteTranscriptionRequest(result=header)
            for topics in messages.batches(messages.topics(result.topics)):
                yield pb.CompleteTranscriptionRequest(batch=pb.ResultBatch(topics=topics))
            for paragraphs in messages.batches(messages.paragraphs(result.paragraphs)):
                yield pb.CompleteTranscriptionRequest(batch=pb.ResultBatch(paragraphs=paragraphs))
            for utterances in messages.batches(messages.utterances(result.utterances)):
                yield pb.CompleteTranscriptionRequest(batch=pb.ResultBatch(utterances=utterances))

        await _patiently(
            lambda: self._stub.CompleteTranscription(messages.streamed(stream()), timeout=_STREAM_SECONDS)
        )

    async def fail(
        self, material_id: str, asr_version: int, *, reason: str, message: str, progress: int, retryable: bool
    ) -> None:
        """Store a failure; repeatable."""
        request = pb.FailTranscriptionRequest(
            material_id=material_id,
            asr_version=asr_version,
            reason=reason,
            message=storable(redacted(message))[:4000],
            progress=progress,
            retryable=retryable,
        )
        await _patiently(lambda: self._stub.FailTranscription(request, timeout=_CALL_SECONDS))


async def _patiently(call: Callable[[], Awaitable[T]], *, attempts: int = _ATTEMPTS) -> T:
    """Make a call, again while the service is out of reach.

    Raises:
        RunLost, NotWanted: the service refused.
        AsrUnreachable: it could not be reached `attempts` times.
    """
    for attempt in range(1, attempts + 1):
        try:
            return await call()
        except grpc.aio.AioRpcError as error:
            reason = reason_of(error)
            if reason == "LEASE_LOST":
                raise RunLost(error.details()) from error
            if reason in {"SUPERSEDED", "MATERIAL_NOT_FOUND"}:
                raise NotWanted(f"{reason}: {error.details()}") from error
            if not is_outage(error):
                raise
            log.warning("asr.call_failed", code=error.code().name, attempt=attempt)
            if attempt == attempts:
                raise AsrUnreachable(f"the asr service answers {error.code().name}") from error
        await asyncio.sleep(backoff_seconds(attempt))
    raise AssertionError("unreachable: the last attempt returns or raises")


def _fetch(message: pb.MediaFetch) -> Fetch:
    pieces = tuple(Piece(piece.object_key, piece.size_bytes) for piece in message.pieces)
    return Fetch(message.url, message.upload_id, pieces, message.validator, message.size_bytes)
