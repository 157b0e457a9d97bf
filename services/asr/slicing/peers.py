"""The asr context as the slicing worker calls it, and what its refusals mean for a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from frontrow.asr.v1 import clip_pb2, slicing_service_pb2, slicing_service_pb2_grpc
from frontrow.worker import Infrastructure, TaskFailed

from libs.common.client import error_info, is_outage, reading
from services.asr.slicing.selection import Passage, Said, Selection, Subject

_CALL_SECONDS = 30.0
_INPUT_SECONDS = 120.0
# Another run or a restarted server may do better; these may not.
_RETRYABLE = frozenset({grpc.StatusCode.ABORTED, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN})


@dataclass(frozen=True)
class Work:
    """What a begun run works on."""

    canonical_key: str
    selection: Selection


@dataclass(frozen=True)
class RunKey:
    """The fence that every call of a run carries."""

    video_project_id: str
    task_id: str
    task_version: int

    def fields(self) -> dict[str, Any]:
        """Return the three fields by the names that all requests give them."""
        return {
            "video_project_id": self.video_project_id,
            "task_id": self.task_id,
            "task_version": self.task_version,
        }


class SlicingPeer:
    """Calls to SlicingService. Each raises Infrastructure when it is away, TaskFailed when it refuses."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        """Use `channel`, which the caller owns and closes."""
        self._stub = slicing_service_pb2_grpc.SlicingServiceStub(channel)

    async def begin(self, run: RunKey) -> Work | None:
        """Begin the run and read its input; None when the project is completed already."""
        request = slicing_service_pb2.GetSlicingInputRequest(**run.fields())
        header: slicing_service_pb2.SlicingHeader | None = None
        parts: list[slicing_service_pb2.SlicingBatch] = []
        with _refusals():
            async with reading(self._stub.GetSlicingInput(request, timeout=_INPUT_SECONDS)) as answers:
                async for answer in answers:
                    if answer.WhichOneof("item") == "header":
                        header = answer.header
                    else:
                        parts.append(answer.batch)
        if header is None:
            raise TaskFailed("the asr service began the run without a header", retryable=True)
        if header.state == slicing_service_pb2.SLICING_STATE_ALREADY_COMPLETED:
            return None
        return Work(header.canonical_key, _selection(header, parts))

    async def save_clips(self, run: RunKey, clips: Sequence[clip_pb2.Clip], source: str) -> None:
        """Store the clips and complete the project."""
        request = slicing_service_pb2.SaveClipsRequest(**run.fields(), clips=clips, clips_source=source)
        with _refusals():
            await self._stub.SaveClips(request, timeout=_CALL_SECONDS)

    async def fail(self, run: RunKey, reason: str, message: str) -> None:
        """Fail the project for good, with the reason an editor reads."""
        request = slicing_service_pb2.FailSlicingRequest(**run.fields(), reason=reason, message=message)
        with _refusals():
            await self._stub.FailSlicing(request, timeout=_CALL_SECONDS)


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn a failed call into what it means for the run.

    LEASE_LOST counts as retryable: the task's version has moved on, so the finish is refused all the same.
    """
    try:
        yield
    except grpc.aio.AioRpcError as error:
        told = error_info(error)
        message = f"{told.reason or error.code().name}: {told.message}"
        if is_outage(error):
            raise Infrastructure(message) from error
        raise TaskFailed(message, retryable=error.code() in _RETRYABLE) from error


def _selection(
    header: slicing_service_pb2.SlicingHeader, parts: Sequence[slicing_service_pb2.SlicingBatch]
) -> Selection:
    said = [u for part in parts for u in part.utterances]
    topics = [t for part in parts for t in part.topics]
    paragraphs = [p for part in parts for p in part.paragraphs]
    return Selection(
        utterances=tuple(Said(u.index, u.start_ms, u.end_ms, u.text) for u in said),
        topics=tuple(
            Subject(t.title, t.summary, tuple(t.keywords), *_indices(t.first_utterance, t.utterance_count))
            for t in topics
        ),
        paragraphs=tuple(
            Passage(p.text, *_indices(p.first_utterance, p.utterance_count)) for p in paragraphs
        ),
        duration_ms=header.duration_ms,
        prompt=header.prompt,
        keywords=header.keywords,
        speech_before_end_ms=header.speech_before_end_ms,
        speech_after_start_ms=header.speech_after_start_ms,
    )


def _indices(first: int, count: int) -> tuple[int, int]:
    return first, first + count
