"""The asr context and the task service as the slicing worker calls them, and what refusals mean for a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from frontrow.asr.v1 import (
    clip_pb2,
    editing_draft_pb2,
    slicing_service_pb2,
    slicing_service_pb2_grpc,
    video_project_pb2,
)
from frontrow.task.v1 import task_service_pb2, task_service_pb2_grpc
from frontrow.worker import Infrastructure, TaskFailed

from libs.common.client import error_info, is_outage, reading
from libs.common.redaction import redacted
from libs.common.storable import storable
from services.asr.slicing.drafts.write import Order
from services.asr.slicing.selection import Passage, Said, Selection, Subject

_CALL_SECONDS = 30.0
_INPUT_SECONDS = 120.0
_MESSAGE_CHARACTERS = 4000
_DRAFT_FORMATS = {
    editing_draft_pb2.DRAFT_FORMAT_OTIO: "otio",
    editing_draft_pb2.DRAFT_FORMAT_FCP7_XML: "fcp7_xml",
    editing_draft_pb2.DRAFT_FORMAT_SRT: "srt",
    editing_draft_pb2.DRAFT_FORMAT_JIANYING: "jianying",
}
# Another run or a restarted server may do better; these may not.
_RETRYABLE = frozenset({grpc.StatusCode.ABORTED, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN})


@dataclass(frozen=True)
class Work:
    """What a begun run works on.

    `clips` are saved already: those of a draft, or of an earlier run of the same task. `draft` is None when
    the run makes none; `makes_clips` is False when it works on a draft alone.
    """

    name: str
    canonical_key: str
    selection: Selection
    fast: bool = False
    makes_clips: bool = True
    clips: tuple[clip_pb2.Clip, ...] = ()
    draft: Order | None = None
    draft_prefix: str = ""


@dataclass(frozen=True)
class Done:
    """The run's task has given its result already; `draft_key` is the object of its draft, if it has one."""

    draft_key: str


@dataclass(frozen=True)
class RunKey:
    """The fence that every call of a run carries; `editing_draft_id` is empty for a run on a project."""

    video_project_id: str
    task_id: str
    task_version: int
    editing_draft_id: str = ""

    def fields(self) -> dict[str, Any]:
        """Return the fields by the names that all requests give them."""
        named = {"editing_draft_id": self.editing_draft_id} if self.editing_draft_id else {}
        return named | {
            "video_project_id": self.video_project_id,
            "task_id": self.task_id,
            "task_version": self.task_version,
        }


class SlicingPeer:
    """Calls to SlicingService. Each raises Infrastructure when it is away, TaskFailed when it refuses."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        """Use `channel`, which the caller owns and closes."""
        self._stub = slicing_service_pb2_grpc.SlicingServiceStub(channel)

    async def begin(self, run: RunKey) -> Work | Done:
        """Begin the run and read its input; Done when its task has given its result already."""
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
            return Done(header.draft_key)
        return _work(run, header, parts)

    async def save_clips(self, run: RunKey, clips: Sequence[clip_pb2.Clip], source: str) -> None:
        """Store the clips and complete the project."""
        request = slicing_service_pb2.SaveClipsRequest(**run.fields(), clips=clips, clips_source=source)
        with _refusals():
            await self._stub.SaveClips(request, timeout=_CALL_SECONDS)

    async def save_draft(self, run: RunKey, draft: slicing_service_pb2.StoredDraft) -> None:
        """Store the draft and complete what the run works on."""
        request = slicing_service_pb2.SaveDraftRequest(**run.fields(), draft=draft)
        with _refusals():
            await self._stub.SaveDraft(request, timeout=_CALL_SECONDS)

    async def fail(self, run: RunKey, reason: str, message: str, *, retryable: bool = False) -> None:
        """Note the reason that an editor reads; unless it is retryable that is the end of it."""
        request = slicing_service_pb2.FailSlicingRequest(
            **run.fields(),
            reason=reason,
            message=storable(redacted(message))[:_MESSAGE_CHARACTERS],
            retryable=retryable,
        )
        with _refusals():
            await self._stub.FailSlicing(request, timeout=_CALL_SECONDS)


class TaskUrls:
    """The task service as a run calls it beside claims and finishes: the address of its result."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        """Use `channel`, which the caller owns and closes."""
        self._stub = task_service_pb2_grpc.TaskServiceStub(channel)

    async def store_draft_url(self, run: RunKey, draft_url: str) -> None:
        """Put the draft's address on the task; only the live run may. Raises as SlicingPeer's calls do."""
        request = task_service_pb2.UpdateTaskUrlsRequest(
            task_id=run.task_id, version=run.task_version, draft_url=draft_url
        )
        with _refusals():
            await self._stub.UpdateTaskUrls(request, timeout=_CALL_SECONDS)


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


def _work(
    run: RunKey,
    header: slicing_service_pb2.SlicingHeader,
    parts: Sequence[slicing_service_pb2.SlicingBatch],
) -> Work:
    order = None
    if header.draft_format:
        order = Order(_DRAFT_FORMATS[header.draft_format], header.draft_root)
    return Work(
        name=header.name,
        canonical_key=header.canonical_key,
        selection=_selection(header, parts),
        fast=header.cut_mode == video_project_pb2.CUT_MODE_FAST,
        makes_clips=not run.editing_draft_id,
        clips=tuple(clip for part in parts for clip in part.clips),
        draft=order,
        draft_prefix=header.draft_prefix,
    )


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
