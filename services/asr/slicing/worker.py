"""One run of an `ai_slice` task: begin, choose, cut, store, save (domain.md 2.10).

The project's result is written first and the task is finished second; both may be repeated.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path

import structlog
from frontrow.asr.v1 import clip_pb2
from frontrow.worker import Completed, Infrastructure, Outcome, Run, TaskFailed

from libs.common.loops import uninterrupted
from libs.common.objects.store import ObjectMissing, ObjectStore, ObjectStoreError
from libs.common.scratch import run_folder
from services.asr.media.errors import MediaError, MediaInfrastructure
from services.asr.media.probe import probe
from services.asr.slicing.make import ClipMaker, Recording
from services.asr.slicing.peers import RunKey, SlicingPeer, Work
from services.asr.slicing.select import NothingChosen, plan
from services.asr.slicing.selection import Planned, Rules

log = structlog.get_logger(__name__)

_CHOSEN_PERCENT, _CUT_PERCENT = 5, 95


class Slicing:
    """The handler of `ai_slice` tasks."""

    def __init__(self, peer: SlicingPeer, store: ObjectStore, rules: Rules, scratch: Path) -> None:
        """`scratch` is made when it isn't there; each run has a folder of its own in it."""
        self._peer = peer
        self._store = store
        self._rules = rules
        self._scratch = scratch

    async def __call__(self, run: Run) -> Outcome:
        """Do one run.

        Raises:
            TaskFailed: the project is at fault, and says why. Infrastructure: something is out of reach.
        """
        key = RunKey(str(run.payload.get("video_project_id", "")), run.task_id, run.version)
        if not key.video_project_id:
            raise TaskFailed("the task's payload has no video_project_id")
        work = await self._peer.begin(key)
        if work is None:
            return Completed()
        try:
            clips, source = await self._clips(run, key, work)
        except NothingChosen as nothing:
            await self._give_up(key, nothing.reason, str(nothing))
        except MediaError as error:
            await self._give_up(key, error.reason, str(error))
        except ObjectMissing as error:
            await self._give_up(key, "RECORDING_MISSING", f"the canonical recording is gone: {error}")
        except (MediaInfrastructure, ObjectStoreError) as error:
            raise Infrastructure(f"{type(error).__name__}: {error}") from error
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise Infrastructure(f"the scratch folder's disk is full: {error}") from error
            raise
        # a stop of the worker mustn't lose a result that is complete
        await uninterrupted(self._peer.save_clips(key, clips, source))
        run.progress(100)
        log.info("slicing.completed", video_project_id=key.video_project_id, clips=len(clips), source=source)
        return Completed(ext={"clips": len(clips), "clips_source": source})

    async def _give_up(self, key: RunKey, reason: str, message: str) -> None:
        """Fail the project with its reason, then the task.

        Raises:
            TaskFailed: always.
        """
        await uninterrupted(self._peer.fail(key, reason, message))
        raise TaskFailed(f"{reason}: {message}")

    async def _clips(self, run: Run, key: RunKey, work: Work) -> tuple[list[clip_pb2.Clip], str]:
        planned, source = await asyncio.to_thread(plan, work.selection, self._rules)
        run.progress(_CHOSEN_PERCENT)
        with run_folder(self._scratch, "slicing") as folder:
            async with self._store.local_path(work.canonical_key) as path:
                recording = Recording(path, work.canonical_key, await probe(path))
                maker = ClipMaker(self._store, key.video_project_id, recording, folder)
                progress = _Progress(run, planned)
                clips = [
                    await maker.make(clip, position, progress.of(position))
                    for position, clip in enumerate(planned)
                ]
        return clips, source


class _Progress:
    """Turns the cutting of clips into the run's per cent, by the length that is done."""

    def __init__(self, run: Run, planned: list[Planned]) -> None:
        self._run = run
        self._lengths = [clip.end_ms - clip.start_ms for clip in planned]
        self._total = max(1, sum(self._lengths))

    def of(self, position: int) -> Callable[[float], None]:
        """Return the function that takes the share done of the clip at `position`."""
        before, length = sum(self._lengths[:position]), self._lengths[position]

        def report(share: float) -> None:
            done = (before + share * length) / self._total
            self._run.progress(_CHOSEN_PERCENT + int(done * (_CUT_PERCENT - _CHOSEN_PERCENT)))

        return report
