"""Making the files of a run's clips: cut, still picture, store; what another run has stored is kept."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from frontrow.asr.v1 import clip_pb2

from libs.common.objects.store import ObjectStore
from services.asr.media import cut as cutting
from services.asr.media.probe import Media, probe
from services.asr.media.thumbnail import thumbnail
from services.asr.slicing.drafts.package import size_and_sha1
from services.asr.slicing.selection import Planned
from services.asr.slicing.words import local_words


@dataclass(frozen=True)
class Recording:
    """The canonical recording of a run: the file, its key, its facts, and how it is cut (see `media.cut`)."""

    path: Path
    key: str
    media: Media
    fast: bool = False


class ClipMaker:
    """Makes the clips of one project, in a scratch folder of one run."""

    def __init__(self, store: ObjectStore, project_id: str, recording: Recording, scratch: Path) -> None:
        """`scratch` is the run's own and empty; the caller removes it."""
        self._store = store
        self._project_id = project_id
        self._recording = recording
        self._scratch = scratch

    async def make(self, clip: Planned, position: int, on_progress: Callable[[float], None]) -> clip_pb2.Clip:
        """Cut and store one clip, unless a run before has; return it with its words.

        Raises:
            MediaError, MediaInfrastructure, Undecided, ObjectStoreError.
        """
        recording = self._recording
        span = await cutting.span(
            recording.path, clip.start_ms, clip.end_ms, media=recording.media, fast=recording.fast
        )
        clip_id = self._clip_id(span)
        key, picture_key = self._key(clip_id, ".mp4"), self._key(clip_id, ".jpg")
        kept = await self._store.head(key) is not None
        kept = kept and (not recording.media.has_picture or await self._store.head(picture_key) is not None)
        if not kept:
            await self._cut_and_store(span, (key, picture_key), on_progress)
        message = await self._described(key)
        on_progress(1.0)
        words = clip.words or local_words(clip, position)
        message.MergeFrom(
            clip_pb2.Clip(
                id=str(clip_id),
                video_project_id=self._project_id,
                position=position,
                title=words.title,
                description=words.description,
                topics=words.topics,
                words_source=words.source,
                chosen_start_ms=clip.start_ms,
                start_ms=span.start_ms,
                end_ms=span.end_ms,
                media_key=key,
                thumbnail_key=picture_key if recording.media.has_picture else "",
            )
        )
        return message

    def _clip_id(self, span: cutting.Cut) -> uuid.UUID:
        """Name the clip by what it is, so that a run that resumes another finds what that one has stored."""
        way = "fast:" if self._recording.fast else ""
        name = f"{way}{self._recording.key}:{span.start_ms}-{span.end_ms}"
        return uuid.uuid5(uuid.UUID(self._project_id), name)

    def _key(self, clip_id: uuid.UUID, suffix: str) -> str:
        return f"clips/{self._project_id}/{clip_id}{suffix}"

    async def _cut_and_store(
        self, span: cutting.Cut, keys: tuple[str, str], on_progress: Callable[[float], None]
    ) -> None:
        recording = self._recording
        video, picture = self._scratch / "clip.mp4", self._scratch / "clip.jpg"
        await cutting.cut(
            recording.path,
            video,
            span.start_ms,
            span.end_ms,
            media=recording.media,
            fast=recording.fast,
            on_progress=on_progress,
        )
        # the picture first: the clip's own object says that both are there
        if recording.media.has_picture:
            await thumbnail(video, picture, span.duration_ms // 3)
            await self._store.put_file(keys[1], picture)
        await self._store.put_file(keys[0], video)

    async def _described(self, key: str) -> clip_pb2.Clip:
        """Read the facts of a stored clip from its bytes."""
        async with self._store.local_path(key) as path:
            media = await probe(path)
            size, sha1 = await asyncio.to_thread(size_and_sha1, path)
        return clip_pb2.Clip(
            size_bytes=size, sha1=sha1, width=media.width, height=media.height, duration_ms=media.duration_ms
        )
