"""What the asr tests stand on: real task and asr servers over one database and one folder of objects."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import grpc
import grpc.aio
import pytest
from frontrow.asr.v1 import live_material_pb2, transcript_pb2
from frontrow.asr.v1 import live_material_service_pb2 as material_pb
from frontrow.asr.v1 import transcription_service_pb2 as run_pb
from frontrow.asr.v1.live_material_service_pb2_grpc import LiveMaterialServiceStub
from frontrow.asr.v1.transcription_service_pb2_grpc import TranscriptionServiceStub
from frontrow.task.v1 import task_pb2, task_service_pb2, work_pb2
from frontrow.task.v1.task_service_pb2_grpc import TaskServiceStub

from libs.common.client import connect, reading, reason_of
from libs.common.objects import ObjectStore, open_store
from libs.common.settings import (
    CommonSettings,
    DatabaseSettings,
    PeerSettings,
    StoreSettings,
    TelemetrySettings,
    TransportSettings,
)
from libs.common.testing import eventually
from tests.integration.asr.made_transcripts import results, utterances

SAMPLES = Path(__file__).resolve().parents[3] / "samples"
PENDING, PROCESSING = live_material_pb2.ASR_STATUS_PENDING, live_material_pb2.ASR_STATUS_PROCESSING
COMPLETED, FAILED = live_material_pb2.ASR_STATUS_COMPLETED, live_material_pb2.ASR_STATUS_FAILED


def common_settings(database_url: str, store: Path, *, task: str = "", asr: str = "") -> CommonSettings:
    """Make the shared settings of a process of the test."""
    nowhere = "127.0.0.1:1"
    return CommonSettings(
        database=DatabaseSettings(url=database_url),
        transport=TransportSettings(),
        peers=PeerSettings(task_address=task or nowhere, asr_address=asr or nowhere),
        store=StoreSettings(object_store=str(store)),
        telemetry=TelemetrySettings(),
    )


@dataclass
class Bed:
    """The servers, seen by their clients."""

    common: CommonSettings
    asr_address: str
    store: ObjectStore
    channels: tuple[grpc.aio.Channel, grpc.aio.Channel]

    @classmethod
    def over(cls, common: CommonSettings, asr_address: str) -> Bed:
        """Connect to the servers."""
        channels = (connect(asr_address), connect(common.peers.task_address))
        return cls(common, asr_address, open_store(common.store), channels)

    def __post_init__(self) -> None:
        self.materials = LiveMaterialServiceStub(self.channels[0])
        self.runs = TranscriptionServiceStub(self.channels[0])
        self.tasks = TaskServiceStub(self.channels[1])

    async def close(self) -> None:
        """Close the channels."""
        for channel in self.channels:
            await channel.close()

    async def upload(self, content: bytes = b"recording") -> str:
        """Upload bytes; returns the finished upload's id."""
        answer = await self.materials.UploadMedia(messages(content))
        assert answer.upload.finished
        return answer.upload.upload_id

    async def material(
        self, content: bytes = b"recording", *, name: str = "", skip: bool = False
    ) -> live_material_pb2.LiveMaterial:
        """Upload a recording and make a material of it."""
        request = material_pb.CreateLiveMaterialRequest(
            name=name or f"录播 {uuid4()}", upload_id=await self.upload(content), skip_transcription=skip
        )
        return (await self.materials.CreateLiveMaterial(request)).live_material

    async def read(self, material_id: str) -> live_material_pb2.LiveMaterial:
        """Read a material."""
        request = material_pb.GetLiveMaterialRequest(live_material_id=material_id)
        return (await self.materials.GetLiveMaterial(request)).live_material

    async def until(
        self, material_id: str, status: live_material_pb2.AsrStatus.ValueType, *, seconds: float = 20.0
    ) -> live_material_pb2.LiveMaterial:
        """Wait until a material has a status, and return it."""

        async def check() -> live_material_pb2.LiveMaterial:
            material = await self.read(material_id)
            assert material.asr_status == status, material
            return material

        return await eventually(check, seconds)

    async def claim(self, task_id: str, *, worker: str = "w") -> task_pb2.Task:
        """Claim tasks of type asr until the wanted one comes; the others are given back."""

        async def check() -> task_pb2.Task:
            request = task_service_pb2.ClaimTasksRequest(worker_id=worker, types=["asr"], max_tasks=100)
            found: task_pb2.Task | None = None
            for task in (await self.tasks.ClaimTasks(request)).tasks:
                if task.id == task_id:
                    found = task
                else:
                    await self.finish(task, released=True, worker=worker)
            assert found is not None
            return found

        return await eventually(check, 20)

    async def finish(
        self,
        task: task_pb2.Task,
        *,
        failed: str = "",
        retryable: bool = False,
        released: bool = False,
        worker: str = "w",
    ) -> work_pb2.FinishOutcome.ValueType:
        """End a claimed task."""
        item = work_pb2.FinishItem(task_id=task.id, version=task.version)
        if released:
            item.released.SetInParent()
        elif failed:
            item.failed.message, item.failed.retryable = failed, retryable
        else:
            item.completed.SetInParent()
        request = task_service_pb2.FinishTasksRequest(worker_id=worker, items=[item])
        return (await self.tasks.FinishTasks(request)).results[0].outcome

    async def begin(
        self, material: live_material_pb2.LiveMaterial, version: int, *, task_id: str = ""
    ) -> run_pb.BeginTranscriptionResponse:
        """Begin a run as a worker does."""
        return await self.runs.BeginTranscription(
            run_pb.BeginTranscriptionRequest(
                material_id=material.id, task_id=task_id or material.asr_task_id, task_version=version
            )
        )

    async def progress(self, material_id: str, asr_version: int, percent: int) -> None:
        """Report progress as a worker does."""
        await self.runs.UpdateTranscriptionProgress(
            run_pb.UpdateTranscriptionProgressRequest(
                material_id=material_id, asr_version=asr_version, progress=percent
            )
        )

    async def save_part(self, material_id: str, asr_version: int, index: int, texts: Sequence[str]) -> None:
        """Keep a part as a worker does."""
        described = transcript_pb2.TranscriptPart(
            index=index, start_ms=index * 1000, end_ms=index * 1000 + 1000, engine="e", language="zh"
        )
        header = run_pb.TranscriptPartHeader(material_id=material_id, asr_version=asr_version, part=described)

        async def stream() -> AsyncIterator[run_pb.SaveTranscriptPartRequest]:
            yield run_pb.SaveTranscriptPartRequest(header=header)
            yield run_pb.SaveTranscriptPartRequest(
                utterances=run_pb.PartUtterances(utterances=utterances(texts))
            )

        await self.runs.SaveTranscriptPart(stream())

    async def complete(self, material_id: str, asr_version: int, texts: Sequence[str]) -> None:
        """Store a result as a worker does: one paragraph and one topic for all."""
        await self.runs.CompleteTranscription(results(material_id, asr_version, texts))

    async def fail(self, material_id: str, asr_version: int, reason: str, *, retryable: bool = False) -> None:
        """Store a failure as a worker does."""
        await self.runs.FailTranscription(
            run_pb.FailTranscriptionRequest(
                material_id=material_id,
                asr_version=asr_version,
                reason=reason,
                message="what went wrong",
                progress=42,
                retryable=retryable,
            )
        )

    async def transcript(self, material_id: str) -> list[material_pb.GetTranscriptResponse]:
        """Read a whole transcript."""
        request = material_pb.GetTranscriptRequest(live_material_id=material_id)
        async with reading(self.materials.GetTranscript(request)) as stream:
            return [message async for message in stream]

    async def texts(self, material_id: str) -> list[str]:
        """Read the utterances' texts."""
        answers = await self.transcript(material_id)
        return [item.text for answer in answers for item in answer.utterances.utterances]


def messages(
    content: bytes, *, upload_id: str = "", offset: int = 0, sha1: str | None = None, chunk: int = 1 << 20
) -> AsyncIterator[material_pb.UploadMediaRequest]:
    """Make an upload stream of the bytes from `offset` on."""

    async def stream() -> AsyncIterator[material_pb.UploadMediaRequest]:
        metadata = material_pb.UploadMetadata(
            upload_id=upload_id,
            offset=offset,
            size_bytes=len(content),
            file_name="录播.mp4",
            sha1=sha1_of(content) if sha1 is None else sha1,
        )
        yield material_pb.UploadMediaRequest(metadata=metadata)
        for start in range(offset, len(content), chunk):
            yield material_pb.UploadMediaRequest(chunk=content[start : start + chunk])

    return stream()


async def first(
    chunks: int, stream: AsyncIterator[material_pb.UploadMediaRequest]
) -> AsyncIterator[material_pb.UploadMediaRequest]:
    """Yield an upload stream's metadata and so many of its chunks."""
    async for message in stream:
        if message.WhichOneof("item") == "chunk" and (chunks := chunks - 1) < 0:
            return
        yield message


def sha1_of(content: bytes) -> str:
    """Hash as the wire wants it."""
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


async def refusal(call: object) -> tuple[grpc.StatusCode, str | None]:
    """Await a call that must be refused; returns code and reason."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call  # type: ignore[misc]
    return caught.value.code(), reason_of(caught.value)


LEASE_LOST = (grpc.StatusCode.ABORTED, "LEASE_LOST")
SUPERSEDED = (grpc.StatusCode.FAILED_PRECONDITION, "SUPERSEDED")
MATERIAL_NOT_FOUND = (grpc.StatusCode.NOT_FOUND, "MATERIAL_NOT_FOUND")
