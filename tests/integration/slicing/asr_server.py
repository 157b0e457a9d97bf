"""The real asr server as its clients see it, and materials transcribed through its real RPCs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc.aio
from frontrow.asr.v1 import (
    live_material_pb2,
    live_material_service_pb2,
    live_material_service_pb2_grpc,
    slicing_service_pb2_grpc,
    transcript_pb2,
    transcription_service_pb2,
    transcription_service_pb2_grpc,
    video_project_pb2,
    video_project_service_pb2,
    video_project_service_pb2_grpc,
)

from libs.common.client import connect
from libs.common.objects import ObjectStore
from libs.common.settings import (
    CommonSettings,
    DatabaseSettings,
    PeerSettings,
    StoreSettings,
    TelemetrySettings,
    TransportSettings,
)

SAMPLES = Path(__file__).resolve().parents[3] / "samples"
RECORDING = SAMPLES / "live_zh.mp4"
RECORDING_MS = 119_680
FACTS: dict[str, Any] = {
    "duration_ms": RECORDING_MS,
    "width": 416,
    "height": 234,
    "engine": "true/sentences",
    "language": "zh",
    "summaries_source": "true/topics",
}
# where the four topics of the sample begin, by sentence, and what they are about
TOPICS = ((0, "利率和债券"), (16, "三层钢不粘锅"), (31, "孩子的学习"), (44, "股票开户"))


@dataclass
class Asr:
    """The server under test, seen by its clients."""

    address: str
    store: ObjectStore
    channel: grpc.aio.Channel = field(init=False)

    def __post_init__(self) -> None:
        self.channel = connect(self.address)
        self.materials = live_material_service_pb2_grpc.LiveMaterialServiceStub(self.channel)
        self.transcriptions = transcription_service_pb2_grpc.TranscriptionServiceStub(self.channel)
        self.projects = video_project_service_pb2_grpc.VideoProjectServiceStub(self.channel)
        self.slicing = slicing_service_pb2_grpc.SlicingServiceStub(self.channel)

    async def upload(self, name: str, content: bytes) -> live_material_pb2.LiveMaterial:
        """Upload a recording and make a material of it."""

        async def messages() -> AsyncIterator[live_material_service_pb2.UploadMediaRequest]:
            sha1 = hashlib.sha1(content, usedforsecurity=False).hexdigest()
            metadata = live_material_service_pb2.UploadMetadata(
                size_bytes=len(content), file_name=f"{name}.mp4", sha1=sha1
            )
            yield live_material_service_pb2.UploadMediaRequest(metadata=metadata)
            for start in range(0, len(content), 1 << 20):
                yield live_material_service_pb2.UploadMediaRequest(chunk=content[start : start + (1 << 20)])

        upload = (await self.materials.UploadMedia(messages())).upload
        request = live_material_service_pb2.CreateLiveMaterialRequest(name=name, upload_id=upload.upload_id)
        return (await self.materials.CreateLiveMaterial(request)).live_material

    async def transcribe(
        self,
        material: live_material_pb2.LiveMaterial,
        *,
        version: int = 1,
        utterances: Sequence[transcript_pb2.Utterance] | None = None,
        canonical_key: str = "",
    ) -> None:
        """Do what the ASR worker does, with the sample's true sentences in place of an engine."""
        begun = await self.transcriptions.BeginTranscription(
            transcription_service_pb2.BeginTranscriptionRequest(
                material_id=material.id, task_id=material.asr_task_id, task_version=version
            )
        )
        key = canonical_key or f"recordings/{material.id}/canonical-{begun.asr_version}.mp4"
        if not canonical_key:
            await self.store.put_file(key, RECORDING)
        said = list(utterances or sample_utterances())
        topics, paragraphs = topics_of(said), paragraphs_of(said)

        result = transcription_service_pb2.TranscriptionResult(
            material_id=material.id,
            asr_version=begun.asr_version,
            canonical_key=key,
            utterance_count=len(said),
            paragraph_count=len(paragraphs),
            topic_count=len(topics),
            **FACTS,
        )

        async def messages() -> AsyncIterator[transcription_service_pb2.CompleteTranscriptionRequest]:
            yield transcription_service_pb2.CompleteTranscriptionRequest(result=result)
            batch = transcription_service_pb2.ResultBatch(
                utterances=said, paragraphs=paragraphs, topics=topics
            )
            yield transcription_service_pb2.CompleteTranscriptionRequest(batch=batch)

        await self.transcriptions.CompleteTranscription(messages())

    async def transcribed(self, name: str) -> live_material_pb2.LiveMaterial:
        """Return a material of the sample recording that is transcribed already."""
        material = await self.upload(name, b"the recording as it was uploaded: " + name.encode())
        await self.transcribe(material)
        return material

    async def project(self, material_id: str, **fields: object) -> video_project_pb2.VideoProject:
        """Create a project."""
        request = video_project_service_pb2.CreateVideoProjectRequest(
            **({"live_material_id": material_id, "name": "精彩片段"} | fields)  # type: ignore[arg-type]
        )
        return (await self.projects.CreateVideoProject(request)).video_project

    async def reread(self, project: video_project_pb2.VideoProject) -> video_project_pb2.VideoProject:
        """Read a project again."""
        request = video_project_service_pb2.GetVideoProjectRequest(video_project_id=project.id)
        return (await self.projects.GetVideoProject(request)).video_project


def sample_utterances() -> list[transcript_pb2.Utterance]:
    """Return the sample's true sentences."""
    sentences = json.loads((SAMPLES / "speech" / "zh_live.json").read_text())
    return [
        transcript_pb2.Utterance(
            index=i, start_ms=round(s["start"] * 1000), end_ms=round(s["end"] * 1000), text=s["text"]
        )
        for i, s in enumerate(sentences)
    ]


def topics_of(said: Sequence[transcript_pb2.Utterance]) -> list[transcript_pb2.Topic]:
    """Cover the utterances by the sample's topics."""
    starts = [(first, title) for first, title in TOPICS if first < len(said)]
    ends = [first for first, _ in starts[1:]] + [len(said)]
    return [
        transcript_pb2.Topic(
            index=i,
            title=title,
            summary="".join(u.text for u in said[first:end])[:100],
            keywords=[title[:2]],
            start_ms=said[first].start_ms,
            end_ms=said[end - 1].end_ms,
            first_utterance=first,
            utterance_count=end - first,
        )
        for i, ((first, title), end) in enumerate(zip(starts, ends, strict=True))
    ]


def paragraphs_of(said: Sequence[transcript_pb2.Utterance]) -> list[transcript_pb2.Paragraph]:
    """Put four utterances into each paragraph."""
    groups = [said[i : i + 4] for i in range(0, len(said), 4)]
    return [
        transcript_pb2.Paragraph(
            index=i,
            start_ms=group[0].start_ms,
            end_ms=group[-1].end_ms,
            text="".join(u.text for u in group)[:200],
            first_utterance=group[0].index,
            utterance_count=len(group),
        )
        for i, group in enumerate(groups)
    ]


def common_settings(database_url: str, store: Path, **addresses: str) -> CommonSettings:
    """Return settings with everything beyond the database, the store and the peers at its default."""
    return CommonSettings(
        database=DatabaseSettings(url=database_url),
        transport=TransportSettings(),
        peers=PeerSettings(**addresses),
        store=StoreSettings(object_store=str(store)),
        telemetry=TelemetrySettings(),
    )
