"""Typed calls of the ASR worker to the asr context; transport troubles are told apart from refusals."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import grpc
import grpc.aio
import structlog
from frontrow.asr.v1 import transcript_pb2
from frontrow.asr.v1 import transcription_service_pb2 as pb
from frontrow.asr.v1.transcription_service_pb2_grpc import TranscriptionServiceStub

from libs.common.client import is_outage, reading, reason_of
from libs.common.loops import backoff_seconds
from services.asr.worker.speech import Paragraph, Part, Span, Topic, Utterance, Word

log = structlog.get_logger(__name__)

T = TypeVar("T")

_CALL_SECONDS = 10.0
_STREAM_SECONDS = 120.0
_ATTEMPTS = 5
_BATCH = 100


class RunLost(Exception):
    """The asr context says that this run is not the current one any more: stop at once."""


class NotWanted(Exception):
    """The material is gone or another task is its current one: the task has no use any more."""


class AsrUnreachable(Exception):
    """The asr context could not be reached, several times in a row."""


@dataclass(frozen=True, slots=True)
class Begun:
    """What a begin answered."""

    already_completed: bool
    asr_version: int
    part_indices: tuple[int, ...]
    media_key: str


@dataclass(frozen=True, slots=True)
class Result:
    """A run's result."""

    duration_ms: int
    width: int
    height: int
    canonical_key: str
    engine: str
    language: str
    summaries_source: str
    missing_seconds: float
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
        )

    async def parts(self, material_id: str, asr_version: int) -> dict[int, Part]:
        """Read the parts kept from earlier runs, by index."""
        request = pb.GetTranscriptPartsRequest(material_id=material_id, asr_version=asr_version)

        async def read() -> dict[int, Part]:
            found: dict[int, Part] = {}
            async with reading(self._stub.GetTranscriptParts(request, timeout=_STREAM_SECONDS)) as answers:
                async for answer in answers:
                    part = _part(answer.part)
                    before = found.get(part.span.index)
                    if before is not None:
                        both = before.utterances + part.utterances
                        part = Part(part.span, part.engine, part.language, both)
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
        )
        header = pb.TranscriptPartHeader(material_id=material_id, asr_version=asr_version, part=described)

        def messages() -> Iterator[pb.SaveTranscriptPartRequest]:
            yield pb.SaveTranscriptPartRequest(header=header)
            for some in _batches(_utterances(part.utterances)):
                yield pb.SaveTranscriptPartRequest(utterances=pb.PartUtterances(utterances=some))

        await _patiently(
            lambda: self._stub.SaveTranscriptPart(_streamed(messages()), timeout=_STREAM_SECONDS)
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
            utterance_count=len(result.utterances),
            paragraph_count=len(result.paragraphs),
            topic_count=len(result.topics),
        )

        def messages() -> Iterator[pb.CompleteTranscriptionRequest]:
            yield pb.CompleteTranscriptionRequest(result=header)
            for topics in _batches(_topics(result.topics)):
                yield pb.CompleteTranscriptionRequest(batch=pb.ResultBatch(topics=topics))
            for paragraphs in _batches(_paragraphs(result.paragraphs)):
                yield pb.CompleteTranscriptionRequest(batch=pb.ResultBatch(paragraphs=paragraphs))
            for utterances in _batches(_utterances(result.utterances)):
                yield pb.CompleteTranscriptionRequest(batch=pb.ResultBatch(utterances=utterances))

        await _patiently(
            lambda: self._stub.CompleteTranscription(_streamed(messages()), timeout=_STREAM_SECONDS)
        )

    async def fail(
        self, material_id: str, asr_version: int, *, reason: str, message: str, progress: int, retryable: bool
    ) -> None:
        """Store a failure; repeatable."""
        request = pb.FailTranscriptionRequest(
            material_id=material_id,
            asr_version=asr_version,
            reason=reason,
            message=message.replace("\x00", "\ufffd")[:4000],
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


async def _streamed(messages: Iterable[T]) -> AsyncIterator[T]:
    for message in messages:
        yield message


def _batches(messages: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(messages), _BATCH):
        yield messages[start : start + _BATCH]


def _utterances(items: Sequence[Utterance]) -> list[transcript_pb2.Utterance]:
    return [
        transcript_pb2.Utterance(
            index=index,
            start_ms=item.start_ms,
            end_ms=item.end_ms,
            text=item.text,
            raw_text="" if item.raw_text == item.text else item.raw_text,
            words=[
                transcript_pb2.Word(text=word.text, start_ms=word.start_ms, end_ms=word.end_ms)
                for word in item.words
            ],
        )
        for index, item in enumerate(items)
    ]


def _paragraphs(items: Sequence[Paragraph]) -> list[transcript_pb2.Paragraph]:
    return [
        transcript_pb2.Paragraph(
            index=index,
            start_ms=item.start_ms,
            end_ms=item.end_ms,
            text=item.text,
            first_utterance=item.first,
            utterance_count=item.count,
        )
        for index, item in enumerate(items)
    ]


def _topics(items: Sequence[Topic]) -> list[transcript_pb2.Topic]:
    return [
        transcript_pb2.Topic(
            index=index,
            title=item.title,
            summary=item.summary,
            keywords=item.keywords,
            start_ms=item.start_ms,
            end_ms=item.end_ms,
            first_utterance=item.first,
            utterance_count=item.count,
        )
        for index, item in enumerate(items)
    ]


def _part(message: transcript_pb2.TranscriptPart) -> Part:
    utterances = tuple(
        Utterance(
            item.start_ms,
            item.end_ms,
            item.text,
            item.raw_text or item.text,
            tuple(Word(word.text, word.start_ms, word.end_ms) for word in item.words),
        )
        for item in message.utterances
    )
    span = Span(message.index, message.start_ms, message.end_ms)
    return Part(span, message.engine, message.language, utterances)
