"""Something of everything that is stored, made by the calls themselves, so that bad clients find it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, TypeVar

import grpc
from frontrow.asr.v1 import live_material_service_pb2 as materials
from frontrow.asr.v1 import transcript_pb2
from frontrow.asr.v1 import transcription_service_pb2 as runs
from frontrow.asr.v1 import video_project_service_pb2 as projects
from frontrow.client.signing import METHOD as SUBMIT
from frontrow.ingest.v1 import gallery_pb2, ingest_service_pb2
from frontrow.review.v1 import draft_pb2, draft_service_pb2, intake_service_pb2, key_service_pb2, media_pb2
from frontrow.task.v1 import task_service_pb2
from google.protobuf import message_factory
from google.protobuf.message import Message

from libs.common.ids import uuid7
from tests.soak.system.fuzz.methods import Method, every_method
from tests.soak.system.fuzz.target import Target

M = TypeVar("M", bound=Message)
RUNWAY, STREET = draft_pb2.GALLERY_KIND_RUNWAY, draft_pb2.GALLERY_KIND_STREET_SNAP


class Seeds:
    """Makes what is to be found, and remembers ids, keys and etags."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._methods = {method.path: method for method in every_method()}
        self.known: list[str] = []

    def make(self) -> None:
        """Make all of it; the target knows it afterwards."""
        self._keys()
        self._spider_and_job()
        self._drafts()
        self._tasks()
        self._recording()
        self.known.append(str(uuid7()))  # of nothing
        self._target.known = tuple(dict.fromkeys(text for text in self.known if text))

    def _do(self, path: str, *requests: Message) -> Any:
        method: Method = self._methods[path]
        raws = [request.SerializeToString() for request in requests]
        metadata = (*self._target.bearer("admin"), *self._target.signed(method, raws[0]))
        outcome = self._target.call(method, raws, metadata)
        assert outcome.code is grpc.StatusCode.OK, outcome
        answer = message_factory.GetMessageClass(method.response).FromString(outcome.answered)
        self.known += _ids(answer)
        return answer

    def _note(self, *texts: str) -> None:
        self.known += texts

    def _keys(self) -> None:
        path = "/frontrow.review.v1.KeyService/"
        for name in ("Maison Fuzz", "Fuzz & Sons"):
            self._do(path + "CreateBrand", key_service_pb2.CreateBrandRequest(name=name))
        self._note("Maison Fuzz", "Copenhagen", "FW26", "media/ab/abcd.jpg")

    def _spider_and_job(self) -> None:
        path = "/frontrow.ingest.v1.IngestService/"
        made = self._do(path + "CreateSpider", ingest_service_pb2.CreateSpiderRequest(name="fuzz"))
        self._target.spider = (made.key_id, made.secret)
        self._target.secrets["the spider's secret"] = made.secret
        gallery = gallery_pb2.Gallery(
            kind=gallery_pb2.GALLERY_KIND_RUNWAY, title="Show", source="fuzz", source_url="https://f/1",
            brand="Maison Fuzz", season_code="FW26",
            images=[gallery_pb2.GalleryImage(url="https://f/1.jpg", position=1)],
        )  # fmt: skip
        job = self._do(SUBMIT, ingest_service_pb2.SubmitGalleryRequest(gallery=gallery))
        self._do(path + "GetIngestJob", ingest_service_pb2.GetIngestJobRequest(job_id=job.job_id))

    def _drafts(self) -> None:
        path = "/frontrow.review.v1.IntakeService/"
        items = [_item(f"image {number}".encode()) for number in range(3)]
        keys = [item.key for item in items]
        self._do(path + "ReserveMedia", intake_service_pb2.ReserveMediaRequest(job_id="seed", items=items))
        self._do(path + "ConfirmMedia", intake_service_pb2.ConfirmMediaRequest(job_id="seed", keys=keys))
        images = [intake_service_pb2.IntakeImage(media_key=key) for key in keys]
        runway = intake_service_pb2.RunwayTexts(brand="Maison Fuzz", season_code="FW26")
        street = intake_service_pb2.StreetSnapTexts(city="Copenhagen", year=2026, month=8)
        made: list[tuple[Any, str]] = []
        for number in range(2):
            facts: dict[str, Any] = {"title": "Show", "source": "fuzz", "images": images}
            one = intake_service_pb2.CreateRunwayDraftRequest(
                job_id=f"r{number}", source_url=f"r{number}", runway=runway, **facts
            )
            other = intake_service_pb2.CreateStreetSnapDraftRequest(
                job_id=f"s{number}", source_url=f"s{number}", street_snap=street, **facts
            )
            made.append((RUNWAY, self._do(path + "CreateRunwayDraft", one).draft_id))
            made.append((STREET, self._do(path + "CreateStreetSnapDraft", other).draft_id))
        self._note(*keys)
        for kind, draft_id in made[:2]:
            self._approve(kind, draft_id)

    def _approve(self, kind: Any, draft_id: str) -> None:
        path = "/frontrow.review.v1.DraftService/"
        asked = draft_service_pb2.GetDraftRequest(kind=kind, draft_id=draft_id)
        etag = self._do(path + "GetDraft", asked).draft.etag
        request = draft_service_pb2.ApproveDraftRequest(kind=kind, draft_id=draft_id, etag=etag)
        self._do(path + "ApproveDraft", request)
        self._do(path + "GetDraft", asked)

    def _tasks(self) -> None:
        path = "/frontrow.task.v1.TaskService/"
        for _ in range(3):
            request = task_service_pb2.CreateTaskRequest(type="fuzz", task_id=str(uuid7()))
            self._do(path + "CreateTask", request)
        claim = task_service_pb2.ClaimTasksRequest(worker_id="w", types=["fuzz"], max_tasks=1)
        assert self._do(path + "ClaimTasks", claim).tasks

    def _recording(self) -> None:
        path = "/frontrow.asr.v1."
        content = b"no recording at all"
        upload = self._do(
            path + "LiveMaterialService/UploadMedia",
            materials.UploadMediaRequest(
                metadata=materials.UploadMetadata(
                    size_bytes=len(content), file_name="a.mp4",
                    sha1=hashlib.sha1(content, usedforsecurity=False).hexdigest(),
                )
            ),
            materials.UploadMediaRequest(chunk=content),
        ).upload  # fmt: skip
        created = materials.CreateLiveMaterialRequest(name="Fuzz", upload_id=upload.upload_id)
        material = self._do(path + "LiveMaterialService/CreateLiveMaterial", created).live_material
        by_url = materials.CreateLiveMaterialRequest(name="by URL", media_url="https://fuzz.example/a.mp4")
        self._do(path + "LiveMaterialService/CreateLiveMaterial", by_url)
        begun = self._do(
            path + "TranscriptionService/BeginTranscription",
            runs.BeginTranscriptionRequest(
                material_id=material.id, task_id=material.asr_task_id, task_version=1
            ),
        )
        self._do(
            path + "TranscriptionService/CompleteTranscription", *_result(material.id, begun.asr_version)
        )
        request = projects.CreateVideoProjectRequest(live_material_id=material.id, name="Fuzz")
        self._do(path + "VideoProjectService/CreateVideoProject", request)


def _ids(message: Message) -> list[str]:
    """Return what a message tells of ids, keys and etags, at whatever depth."""
    found: list[str] = []
    for field, value in message.ListFields():
        for item in value if field.is_repeated else [value]:
            if isinstance(item, Message):
                found += _ids(item)
            elif isinstance(item, str) and re.search("(^|_)(id|key|etag)s?$", field.name):
                found.append(item)
    return found


def _item(data: bytes) -> media_pb2.MediaItem:
    sha1 = hashlib.sha1(data, usedforsecurity=False).hexdigest()
    return media_pb2.MediaItem(
        key=f"media/{sha1[:2]}/{sha1}.jpg", sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data),
        content_type="image/jpeg", width=600, height=900,
    )  # fmt: skip


def _result(material_id: str, asr_version: int) -> Sequence[runs.CompleteTranscriptionRequest]:
    said = transcript_pb2.Utterance(index=0, start_ms=0, end_ms=900, text="利率下降了", raw_text="利率下降了")
    paragraph = transcript_pb2.Paragraph(index=0, text="利率下降了", end_ms=900, utterance_count=1)
    topic = transcript_pb2.Topic(
        title="利率", summary="利率", keywords=["利率"], end_ms=900, utterance_count=1
    )
    result = runs.TranscriptionResult(
        material_id=material_id, asr_version=asr_version, duration_ms=1_000, width=640, height=360,
        canonical_key=f"recordings/{material_id}/canonical.mp4", engine="e", language="zh",
        summaries_source="local/test", utterance_count=1, paragraph_count=1, topic_count=1,
    )  # fmt: skip
    batch = runs.ResultBatch(utterances=[said], paragraphs=[paragraph], topics=[topic])
    return (
        runs.CompleteTranscriptionRequest(result=result),
        runs.CompleteTranscriptionRequest(batch=batch),
    )
