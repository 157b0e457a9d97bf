"""Making a draft of stored clips: measure, pack, store. What another run has stored is found by its SHA-1."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from frontrow.asr.v1 import clip_pb2, slicing_service_pb2

from libs.common.objects.store import ObjectMissing, ObjectStore
from services.asr.slicing.drafts.facts import Facts, measure
from services.asr.slicing.drafts.names import clip_name, plain_name
from services.asr.slicing.drafts.package import Package, size_and_sha1
from services.asr.slicing.drafts.timeline import Material, Timeline, build, plain
from services.asr.slicing.drafts.write import Order, files
from services.asr.slicing.selection import Said

_NAME_DIGITS = 6
# What is left of the progress for storing the zip.
_PACKED_SHARE = 0.9


class ClipMissing(Exception):
    """The store holds the file of a clip no more."""


@dataclass(frozen=True)
class Source:
    """What a draft is made of: clips in order, the words said in the recording, the names for it."""

    name: str
    task_id: str
    clips: Sequence[clip_pb2.Clip]
    said: Sequence[Said]

    @property
    def folder(self) -> str:
        """The draft's folder; two drafts of one project lie side by side on an editor's machine."""
        return f"{plain_name(self.name, 'draft')}_{self.task_id.replace('-', '')[-_NAME_DIGITS:]}"


class DraftMaker:
    """Makes one draft in a scratch folder of one run."""

    def __init__(self, store: ObjectStore, prefix: str, order: Order, scratch: Path) -> None:
        """`prefix` is the draft's folder in the store; `scratch` is the run's own, the caller removes it."""
        self._store = store
        self._prefix = prefix
        self._order = order
        self._scratch = scratch

    async def make(
        self, source: Source, on_progress: Callable[[float], None]
    ) -> slicing_service_pb2.StoredDraft:
        """Pack and store the draft; nothing of it is in the store before all of it is.

        Raises:
            ClipMissing, EmptyDraft, MediaError: the clips are at fault.
            ObjectStoreError, OSError: this machine or the store is.
        """
        path = self._scratch / "draft.zip"
        timeline = await self._pack(path, source, on_progress)
        size, sha1 = await asyncio.to_thread(size_and_sha1, path)
        key = f"{self._prefix}{sha1}.zip"
        if await self._store.head(key) is None:
            await self._store.put_file(key, path)
        on_progress(1.0)
        rate = timeline.rate
        return slicing_service_pb2.StoredDraft(
            media_key=key,
            size_bytes=size,
            sha1=sha1,
            file_name=f"{source.folder}.zip",
            duration_ms=timeline.milliseconds(timeline.frames),
            frame_rate=str(rate),
        )

    async def _pack(self, path: Path, source: Source, on_progress: Callable[[float], None]) -> Timeline:
        materials: list[Material] = []
        total, done = max(1, sum(clip.size_bytes for clip in source.clips)), 0

        def on_bytes(count: int) -> None:
            nonlocal done
            done += count
            on_progress(min(1.0, done / total) * _PACKED_SHARE)

        with Package(path, source.folder) as package:
            for number, clip in enumerate(source.clips, 1):
                name = clip_name(number, clip.title)
                facts = await self._add(package, clip, name, on_bytes)
                materials.append(_material(clip, name, facts))
            timeline = build(source.name, materials, source.said)
            written = await asyncio.to_thread(files, timeline, self._order, source.folder)
            for name, text in written.items():
                await asyncio.to_thread(package.add_text, name, text)
        return timeline

    async def _add(
        self, package: Package, clip: clip_pb2.Clip, name: str, on_bytes: Callable[[int], None]
    ) -> Facts:
        """Measure a clip and add its file; a cancelled run waits for the thread that writes."""

        def work(path: Path) -> Facts:
            facts = measure(path)
            package.add_file(f"{self._order.media_folder}/{name}", path, on_bytes)
            return facts

        try:
            async with self._store.local_path(clip.media_key) as path:
                writing = asyncio.ensure_future(asyncio.to_thread(work, path))
                try:
                    return await asyncio.shield(writing)
                except asyncio.CancelledError:
                    package.stop()
                    await asyncio.gather(writing, return_exceptions=True)
                    raise
        except ObjectMissing as error:
            raise ClipMissing(
                f"the file of clip {clip.position + 1} ({clip.title}) is gone: {error}"
            ) from error


def _material(clip: clip_pb2.Clip, file_name: str, facts: Facts) -> Material:
    return Material(
        clip_id=clip.id,
        title=plain(clip.title),
        file_name=file_name,
        start_ms=clip.start_ms,
        end_ms=clip.end_ms,
        picture=facts.picture,
        sound=facts.sound,
        fps=facts.fps,
        width=facts.width,
        height=facts.height,
        channels=facts.channels,
    )
