"""Everybody who works while a release replaces another: spiders, and editors of galleries and recordings.

A program of its own that imports the client library alone, so that the release before runs it with its own
library and stubs. It reads its settings as JSON from the first line of stdin, says how far it is in a line of
JSON each second, and ends with a last one when stdin closes. An error counts when the retry of an ordinary
client, for 20 s, doesn't cure it.
"""

import asyncio
import hashlib
import json
import sys
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import grpc
from frontrow.asr.v1 import (
    live_material_pb2,
    live_material_service_pb2,
    video_project_pb2,
    video_project_service_pb2,
)
from frontrow.asr.v1.live_material_service_pb2_grpc import LiveMaterialServiceStub
from frontrow.asr.v1.video_project_service_pb2_grpc import VideoProjectServiceStub
from frontrow.client import AsyncSpiderClient
from frontrow.ingest.v1 import gallery_pb2, ingest_job_pb2
from frontrow.review.v1 import draft_pb2, draft_service_pb2
from frontrow.review.v1.draft_service_pb2_grpc import DraftServiceStub

T = TypeVar("T")

_PATIENCE_SECONDS = 20.0
_TOLD = 5  # errors; the first ones tell most
_CURABLE = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.CANCELLED,  # gRPC's own, of a call that came in while the server stopped
}
_SLICED = video_project_pb2.VIDEO_PROJECT_STATUS_COMPLETED
_OPTIONS = (
    ("grpc.service_config", '{"loadBalancingConfig": [{"round_robin": {}}]}'),
    ("grpc.initial_reconnect_backoff_ms", 250),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.enable_http_proxy", 0),
)


class Load:
    """The people and programs, and what they came to."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.counts: Counter[str] = Counter()
        self.errors: list[str] = []
        self._settings = settings
        self._stopping = asyncio.Event()
        self._channels = {
            name: grpc.aio.insecure_channel(settings[name], options=_OPTIONS)
            for name in ("ingest", "review", "asr")
        }
        self._drafts = DraftServiceStub(self._channels["review"])
        self._materials = LiveMaterialServiceStub(self._channels["asr"])
        self._projects = VideoProjectServiceStub(self._channels["asr"])
        self._content = Path(settings["recording"]).read_bytes()
        self._transcript: list[str] = []
        self._spider = AsyncSpiderClient(
            settings["ingest"],
            key_id=settings["key_id"],
            secret=settings["secret"],
            deadline_seconds=_PATIENCE_SECONDS,
            channel=self._channels["ingest"],
        )

    async def run(self) -> None:
        """Work till stdin closes; what was begun by then is brought to its end."""
        people = [self._crawl(number) for number in range(3)] + [self._record()]
        work = [asyncio.create_task(one) for one in people]
        watch = asyncio.create_task(self._report())
        await asyncio.to_thread(sys.stdin.read)
        self._stopping.set()
        await asyncio.gather(*work)
        watch.cancel()
        for channel in self._channels.values():
            await channel.close()

    async def _report(self) -> None:
        while True:
            self.say()
            await asyncio.sleep(1)

    def say(self) -> None:
        """Say how far it is, in one line."""
        print(
            json.dumps({"counts": self.counts, "errors": self.errors[:_TOLD]}, ensure_ascii=False), flush=True
        )

    async def _again_and_again(self, name: str, once: Callable[[int], Awaitable[None]]) -> None:
        number = 0
        while not self._stopping.is_set():
            number += 1
            try:
                await once(number)
            except Exception:  # noqa: BLE001 - every kind is what this is about
                self.errors.append(f"{name} {number}: {traceback.format_exc(limit=-3)[-2000:]}")
            await asyncio.sleep(0.1)

    async def _crawl(self, spider: int) -> None:
        """Submit galleries, follow each to its draft, approve it."""

        async def once(number: int) -> None:
            gallery = gallery_pb2.Gallery(
                kind=gallery_pb2.GALLERY_KIND_RUNWAY, title=f"Show {number}", source=f"spider{spider}",
                source_url=f"https://example.com/{spider}/{number}", brand="Acne Studios",
                season_code="Fall 2026 Ready-to-Wear", collection=f"Line {spider} {number}",
                images=[gallery_pb2.GalleryImage(url=self._settings["image"], position=1)],
            )  # fmt: skip
            job_id = (await self._spider.submit(gallery)).job_id
            self.counts["submitted"] += 1
            job = await self._followed(job_id)
            assert job.status == ingest_job_pb2.INGEST_JOB_STATUS_DONE, job
            self.counts["drafted"] += 1
            await self._approve(job.draft_id)
            self.counts["approved"] += 1

        await self._again_and_again(f"spider {spider}", once)

    async def _followed(self, job_id: str) -> ingest_job_pb2.IngestJob:
        deadline = time.monotonic() + 3 * _PATIENCE_SECONDS
        while True:
            job = await self._cured(lambda: self._spider.get_job(job_id))
            running = (ingest_job_pb2.INGEST_JOB_STATUS_PENDING, ingest_job_pb2.INGEST_JOB_STATUS_PROCESSING)
            if job.status not in running:
                return job
            assert time.monotonic() < deadline, f"no end of {job}"
            await asyncio.sleep(0.2)

    async def _approve(self, draft_id: str) -> None:
        """Approve as an editor's program does: read, decide, and read again when it isn't sure."""
        which = {"kind": draft_pb2.GALLERY_KIND_RUNWAY, "draft_id": draft_id}

        async def decide() -> None:
            read = await self._drafts.GetDraft(draft_service_pb2.GetDraftRequest(**which), timeout=10)
            if read.draft.status == draft_pb2.DRAFT_STATUS_APPROVED:
                return
            request = draft_service_pb2.ApproveDraftRequest(**which, etag=read.draft.etag)
            await self._drafts.ApproveDraft(request, timeout=10)

        await self._cured(decide)

    async def _record(self) -> None:
        """Upload recordings, have them transcribed, and cut into clips."""

        async def once(number: int) -> None:
            upload_id = await self._cured(lambda: self._upload(self._content))
            request = live_material_service_pb2.CreateLiveMaterialRequest(
                name=f"录播 {number}", upload_id=upload_id, request_id=f"record-{number}"
            )
            made = await self._cured(lambda: self._materials.CreateLiveMaterial(request, timeout=10))
            self.counts["recorded"] += 1
            await self._transcribed(made.live_material.id)
            self.counts["transcribed"] += 1
            await self._sliced(number, made.live_material.id)
            self.counts["sliced"] += 1

        await self._again_and_again("recording", once)

    async def _upload(self, content: bytes) -> str:
        async def parts() -> AsyncIterator[live_material_service_pb2.UploadMediaRequest]:
            sha1 = hashlib.sha1(content, usedforsecurity=False).hexdigest()
            metadata = live_material_service_pb2.UploadMetadata(
                size_bytes=len(content), file_name="录播.mp4", sha1=sha1
            )
            yield live_material_service_pb2.UploadMediaRequest(metadata=metadata)
            yield live_material_service_pb2.UploadMediaRequest(chunk=content)

        return str((await self._materials.UploadMedia(parts(), timeout=10)).upload.upload_id)

    async def _transcribed(self, material_id: str) -> None:
        of = {"live_material_id": material_id}

        async def done() -> bool:
            request = live_material_service_pb2.GetLiveMaterialRequest(**of)
            material = (await self._materials.GetLiveMaterial(request, timeout=10)).live_material
            return bool(material.asr_status == live_material_pb2.ASR_STATUS_COMPLETED)

        async def texts() -> list[str]:
            request = live_material_service_pb2.GetTranscriptRequest(**of)
            call = self._materials.GetTranscript(request, timeout=10)
            return [one.text async for part in call for one in part.utterances.utterances]

        deadline = time.monotonic() + 3 * _PATIENCE_SECONDS
        while not await self._cured(done):
            assert time.monotonic() < deadline, f"no transcript of {material_id}"
            await asyncio.sleep(0.2)
        heard = await self._cured(texts)
        self._transcript = self._transcript or heard
        assert heard, f"nothing was heard in {material_id}"
        assert heard == self._transcript, "the same sound, and other words"

    async def _sliced(self, number: int, material_id: str) -> None:
        request = video_project_service_pb2.CreateVideoProjectRequest(
            live_material_id=material_id, name=f"切片 {number}", request_id=f"slice-{number}",
            mode=video_project_pb2.VIDEO_PROJECT_MODE_AI_SLICE,
        )  # fmt: skip
        made = await self._cured(lambda: self._projects.CreateVideoProject(request, timeout=10))
        of = {"video_project_id": made.video_project.id}

        async def project() -> video_project_pb2.VideoProject:
            asked = video_project_service_pb2.GetVideoProjectRequest(**of)
            return (await self._projects.GetVideoProject(asked, timeout=10)).video_project

        deadline = time.monotonic() + 3 * _PATIENCE_SECONDS
        while (found := await self._cured(project)).status != _SLICED:
            assert time.monotonic() < deadline, f"no clips: {found}"
            await asyncio.sleep(0.2)
        assert found.clip_count > 0, found

    async def _cured(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call again while a client's retry may cure it."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return await call()
            except Exception as error:
                code: Any = getattr(
                    error, "code", None
                )  # a Refused has it as a field, a failed call as a method
                if (code() if callable(code) else code) not in _CURABLE or time.monotonic() > deadline:
                    raise
                self.counts["cured"] += 1
                await asyncio.sleep(0.2)


async def _main() -> None:
    load = Load(json.loads(sys.stdin.readline()))
    await load.run()
    load.say()


if __name__ == "__main__":
    asyncio.run(_main())
