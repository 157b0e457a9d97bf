"""One run of an `ai_slice`, `ai_slice_draft` or `draft` task: begin, cut, pack, store, save (domain.md 2.10).

The result is written first and the task is finished second; both may be repeated.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog
from frontrow.asr.v1 import clip_pb2, slicing_service_pb2
from frontrow.worker import Completed, Infrastructure, Outcome, Run, TaskFailed

from libs.common import machine
from libs.common.loops import uninterrupted
from libs.common.objects.address import object_address
from libs.common.objects.store import ObjectMissing, ObjectStore, ObjectStoreError
from libs.common.scratch import run_folder
from services.asr.media.errors import MediaError, MediaInfrastructure, Undecided
from services.asr.media.probe import probe
from services.asr.slicing.chooser import Chooser
from services.asr.slicing.drafts.make import ClipMissing, DraftMaker, Source
from services.asr.slicing.drafts.timeline import EmptyDraft
from services.asr.slicing.make import ClipMaker, Recording
from services.asr.slicing.peers import Done, RunKey, SlicingPeer, TaskUrls, Work
from services.asr.slicing.progress import Phase, by_length
from services.asr.slicing.select import NothingChosen

log = structlog.get_logger(__name__)

_CHOSEN_SHARE, _CUT_SHARE = 0.05, 0.95
_DRAFT_FROM = 50


@dataclass(frozen=True)
class Place:
    """Where runs work: the store, its URL for the addresses of results, and the scratch folder's root."""

    store: ObjectStore
    store_url: str
    scratch: Path


class Slicing:
    """The handler of the slicing worker's tasks."""

    def __init__(self, peer: SlicingPeer, urls: TaskUrls, chooser: Chooser, place: Place) -> None:
        """Each run has a folder of its own in the scratch root, which is made when it isn't there."""
        self._peer = peer
        self._urls = urls
        self._chooser = chooser
        self._place = place

    async def __call__(self, run: Run) -> Outcome:
        """Do one run.

        Raises:
            TaskFailed: the project is at fault, and says why. Infrastructure: something is out of reach.
        """
        payload = run.payload
        key = RunKey(
            str(payload.get("video_project_id", "")),
            run.task_id,
            run.version,
            str(payload.get("editing_draft_id", "")),
        )
        if not key.video_project_id:
            raise TaskFailed("the task's payload has no video_project_id")
        work = await self._peer.begin(key)
        if isinstance(work, Done):
            if work.draft_key:
                await uninterrupted(self._store_url(key, work.draft_key))
            return Completed()
        async with self._noting_failures(key):
            return await self._result(run, key, work)

    async def _result(self, run: Run, key: RunKey, work: Work) -> Completed:
        ext: dict[str, object] = {}
        clips: list[clip_pb2.Clip] = list(work.clips)
        with run_folder(self._place.scratch, "slicing") as folder:
            if work.makes_clips and not clips:
                phase = Phase(run, 0, _DRAFT_FROM if work.draft else 100)
                clips, source = await self._clips(phase, key, work, folder)
                # a stop of the worker mustn't lose a result that is complete
                await uninterrupted(self._peer.save_clips(key, clips, source))
                ext |= {"clips": len(clips), "clips_source": source}
            if work.draft is not None:
                begin = _DRAFT_FROM if work.makes_clips else 0
                ext |= await self._draft(Phase(run, begin, 100), key, work, clips, folder=folder)
        run.progress(100)
        log.info("slicing.completed", video_project_id=key.video_project_id, **ext)
        return Completed(ext=ext)

    async def _clips(
        self, phase: Phase, key: RunKey, work: Work, folder: Path
    ) -> tuple[list[clip_pb2.Clip], str]:
        """Choose the clips, cut and store them."""
        planned, source = await self._chooser.choose(
            work.selection,
            f"staging/slicing/{key.video_project_id}/",
            lambda share: phase.share(share * _CHOSEN_SHARE),
        )
        phase.share(_CHOSEN_SHARE)
        lengths = [clip.end_ms - clip.start_ms for clip in planned]
        report = by_length(
            lengths, lambda done: phase.share(_CHOSEN_SHARE + done * (_CUT_SHARE - _CHOSEN_SHARE))
        )
        store = self._place.store
        async with store.local_path(work.canonical_key) as path:
            recording = Recording(path, work.canonical_key, await probe(path), fast=work.fast)
            maker = ClipMaker(store, key.video_project_id, recording, folder)
            clips: list[clip_pb2.Clip] = []
            for position, clip in enumerate(planned):
                clips.append(await maker.make(clip, position, partial(report, position)))
        return clips, source

    async def _draft(
        self, phase: Phase, key: RunKey, work: Work, clips: list[clip_pb2.Clip], *, folder: Path
    ) -> dict[str, object]:
        """Pack and store the draft, save it, put its address on the task."""
        if work.draft is None:
            raise ValueError("the run makes no draft")
        maker = DraftMaker(self._place.store, work.draft_prefix, work.draft, folder)
        source = Source(work.name, key.task_id, clips, work.selection.utterances)
        draft = await maker.make(source, lambda share: phase.share(share * _CUT_SHARE))
        await uninterrupted(self._saved(key, draft))
        return {"draft_format": work.draft.format, "draft_bytes": draft.size_bytes}

    async def _saved(self, key: RunKey, draft: slicing_service_pb2.StoredDraft) -> None:
        await self._peer.save_draft(key, draft)
        await self._store_url(key, draft.media_key)

    async def _store_url(self, key: RunKey, object_key: str) -> None:
        await self._urls.store_draft_url(key, object_address(self._place.store_url, object_key))

    @asynccontextmanager
    async def _noting_failures(self, key: RunKey) -> AsyncIterator[None]:
        """Turn what goes wrong into the run's end, and let the editor read why.

        Raises:
            TaskFailed, Infrastructure.
        """
        try:
            yield
        except (TaskFailed, Infrastructure):
            raise
        except (NothingChosen, MediaError) as error:
            await self._give_up(key, error.reason, str(error))
        except ClipMissing as error:
            await self._give_up(key, "CLIP_MISSING", str(error))
        except EmptyDraft as error:
            await self._give_up(key, "EMPTY_DRAFT", str(error))
        except ObjectMissing as error:
            await self._give_up(key, "RECORDING_MISSING", f"the canonical recording is gone: {error}")
        except MediaInfrastructure as error:
            await self._wait_for_better(key, error.reason, str(error), error)
        except ObjectStoreError as error:
            await self._wait_for_better(key, "STORE_UNAVAILABLE", str(error), error)
        except Undecided as error:
            await self._try_again(key, error.reason, str(error), error)
        except OSError as error:
            if not machine.is_machines(error):
                said = f"{type(error).__name__}: {machine.without_paths(error)}"
                await self._try_again(key, "SLICING_FAILED", said, error)
            await self._wait_for_better(key, machine.reason_of(error), machine.without_paths(error), error)
        except Exception as error:
            log.exception("slicing.run_broke", video_project_id=key.video_project_id, task_id=key.task_id)
            await self._try_again(key, "SLICING_FAILED", f"{type(error).__name__}: {error}", error)

    async def _give_up(self, key: RunKey, reason: str, message: str) -> None:
        """Fail the project or draft with its reason, then the task. Raises TaskFailed, always."""
        await uninterrupted(self._peer.fail(key, reason, message))
        raise TaskFailed(f"{reason}: {message}")

    async def _try_again(self, key: RunKey, reason: str, message: str, cause: Exception) -> None:
        """Note the reason and fail the task, retryable. Raises TaskFailed, always."""
        await self._note(key, reason, message)
        raise TaskFailed(f"{reason}: {message}", retryable=True) from cause

    async def _wait_for_better(self, key: RunKey, reason: str, message: str, cause: Exception) -> None:
        """Note the reason and give the task back, uncharged. Raises Infrastructure, always."""
        await self._note(key, reason, message)
        raise Infrastructure(f"{reason}: {message}") from cause

    async def _note(self, key: RunKey, reason: str, message: str) -> None:
        """Note what an attempt failed of; that it can't be noted changes nothing about the attempt."""
        try:
            await uninterrupted(self._peer.fail(key, reason, message, retryable=True))
        except (TaskFailed, Infrastructure) as error:
            log.warning("slicing.failure_not_noted", task_id=key.task_id, reason=reason, error=str(error))
