"""From a project to a draft that an editor opens, against real servers, also when it is disturbed."""

from __future__ import annotations

import asyncio
import json
import zipfile
from pathlib import Path
from urllib.parse import unquote, urlsplit

import opentimelineio as otio
import pytest
from frontrow.asr.v1 import clip_pb2, editing_draft_pb2, video_project_pb2
from frontrow.task.v1 import task_pb2, task_service_pb2

from libs.common.objects.local import LocalStore
from libs.common.objects.store import StoreUnavailable
from libs.common.testing import eventually
from tests.integration.media.recordings import frame_numbers
from tests.integration.slicing.asr_server import RECORDING, Asr
from tests.integration.slicing.chain import Chain
from tests.integration.slicing.draft_runs import (
    JIANYING,
    OTIO,
    ask,
    begin_draft,
    completed_project,
    reread,
    save_draft,
    stored,
)
from tests.integration.slicing.runs import begin, clip, save

BOTH = video_project_pb2.VIDEO_PROJECT_MODE_AI_SLICE_DRAFT
STRANGE = '-rf "100%20" 🎬 直播/回放'
ENDED = (
    editing_draft_pb2.EDITING_DRAFT_STATUS_COMPLETED,
    editing_draft_pb2.EDITING_DRAFT_STATUS_FAILED,
)


async def finished_draft(chain: Chain, draft_id: str) -> editing_draft_pb2.EditingDraft:
    async def look() -> editing_draft_pb2.EditingDraft | None:
        found = await reread(chain.asr, draft_id)
        return found if found.draft_status in ENDED else None

    found = await eventually(look, timeout_seconds=60)
    assert found is not None
    return found


async def task_of(chain: Chain, task_id: str) -> task_pb2.Task:
    return (await chain.tasks.GetTask(task_service_pb2.GetTaskRequest(task_id=task_id))).task


async def ended_task(chain: Chain, task_id: str) -> task_pb2.Task:
    ended = (task_pb2.TASK_STATUS_COMPLETED, task_pb2.TASK_STATUS_FAILED, task_pb2.TASK_STATUS_CANCELLED)

    async def look() -> task_pb2.Task | None:
        task = await task_of(chain, task_id)
        return task if task.status in ended else None

    found = await eventually(look, timeout_seconds=30)
    assert found is not None
    return found


async def stored_clip(
    asr: Asr, project: video_project_pb2.VideoProject, position: int, content: bytes
) -> clip_pb2.Clip:
    """Store a clip's file as a run would, and return its row."""
    made = clip(project, position, title=f"第{position}段")
    made.size_bytes = len(content)
    await asr.store.put_bytes(made.media_key, content)
    return made


def at(url: str) -> Path:
    """Return the file that an address names."""
    parts = urlsplit(url)
    assert parts.scheme == "file"
    return Path(unquote(parts.path))


async def test_one_task_cuts_the_clips_and_makes_a_jianying_draft_of_them(
    chain: Chain, tmp_path: Path
) -> None:
    material = await chain.asr.transcribed("both-phases")
    project = await chain.asr.project(
        material.id,
        name=STRANGE,
        mode=BOTH,
        draft_format=JIANYING,
        span_start_ms=26_000,
        span_end_ms=45_000,
    )
    async with chain.worker():
        done = await chain.finished(project)
        task = await ended_task(chain, project.slice_task_id)
    assert (done.status, done.clip_count) == (video_project_pb2.VIDEO_PROJECT_STATUS_COMPLETED, 2)
    assert (task.type, task.status, task.progress) == ("ai_slice_draft", task_pb2.TASK_STATUS_COMPLETED, 100)
    draft = await reread(chain.asr, done.editing_draft_id)
    assert at(task.draft_url) == tmp_path / "objects" / draft.media_key
    path = await chain.download(tmp_path / "draft.zip", editing_draft_id=draft.id)
    assert path.read_bytes() == at(task.draft_url).read_bytes()
    with zipfile.ZipFile(path) as packed:
        assert packed.testzip() is None
        packed.extractall(tmp_path / "drafts")
    (folder,) = (tmp_path / "drafts").iterdir()
    assert folder.name == draft.file_name.removesuffix(".zip")
    assert folder.name.startswith("rf_100_20_直播_回放_")
    clips = await chain.clips(project)
    files = sorted(file.name for file in (folder / "materials").iterdir())
    assert files == [f"00{c.position + 1}_{c.title}.mp4" for c in clips]
    content = json.loads((folder / "draft_content.json").read_text())
    for found, segment in zip(clips, content["tracks"][0]["segments"], strict=True):
        shown = await asyncio.to_thread(frame_numbers, folder / "materials" / files[found.position])
        assert abs(segment["target_timerange"]["duration"] - len(shown) * 40_000) <= 40_000
    assert {p.name for p in folder.iterdir()} >= {"draft_info.json", "draft_meta_info.json", "captions.srt"}
    assert "三层" in (folder / "captions.srt").read_text()
    assert list(chain.scratch.iterdir()) == []


async def test_a_draft_of_chosen_clips_is_a_task_of_its_own(chain: Chain, tmp_path: Path) -> None:
    project = await chain.asr.project((await chain.asr.transcribed("chosen")).id, name="挑选")
    content = await asyncio.to_thread(RECORDING.read_bytes)
    made = [await stored_clip(chain.asr, project, i, content) for i in range(2)]
    await begin(chain.asr, project)
    await save(chain.asr, project, made)
    draft = await ask(chain.asr, project, clip_ids=[made[1].id, made[0].id], format=OTIO)
    async with chain.worker():
        done = await finished_draft(chain, draft.id)
        task = await ended_task(chain, draft.draft_task_id)
    assert (done.draft_status, done.error_message) == (ENDED[0], "")
    assert (task.type, task.progress, at(task.draft_url).name) == ("draft", 100, f"{done.sha1}.zip")
    path = await chain.download(tmp_path / "draft.zip", editing_draft_id=draft.id)
    with zipfile.ZipFile(path) as packed:
        names = packed.namelist()
        timeline = next(name for name in names if name.endswith(".otio"))
        back = otio.adapters.read_from_string(packed.read(timeline).decode(), "otio_json")
    picture = back.tracks[0]
    assert [clip.name for clip in picture] == ["第1段", "第0段"]
    folder = timeline.rpartition("/")[0]
    assert all(f"{folder}/{unquote(clip.media_reference.target_url)}" in names for clip in picture)
    assert int(picture[0].duration().value) == 2992
    assert (done.frame_rate, done.duration_ms) == ("25", 2 * 119_680)


async def test_a_run_goes_on_with_the_clips_that_a_lost_one_has_saved(chain: Chain) -> None:
    material = await chain.asr.transcribed("resumed-draft")
    project = await chain.asr.project(material.id, mode=BOTH)
    await chain.task_in(project, task_pb2.TASK_STATUS_PENDING)
    claim = task_service_pb2.ClaimTasksRequest(worker_id="lost", types=["ai_slice_draft"], max_tasks=1)
    claimed = (await chain.tasks.ClaimTasks(claim)).tasks[0]
    await begin(chain.asr, project, version=claimed.version)
    kept = await stored_clip(chain.asr, project, 0, await asyncio.to_thread(RECORDING.read_bytes))
    await save(chain.asr, project, [kept], version=claimed.version)
    async with chain.worker():
        done = await chain.finished(project)
    assert (done.clip_count, done.clips_source) == (1, "topics")
    assert [c.id for c in await chain.clips(project)] == [kept.id]
    assert done.editing_draft_id


async def test_a_run_that_was_lost_behind_its_save_leaves_no_task_without_its_address(chain: Chain) -> None:
    project = await completed_project(chain.asr, "address")
    draft = await ask(chain.asr, project)

    async def claimed() -> task_pb2.Task | None:
        claim = task_service_pb2.ClaimTasksRequest(worker_id="lost", types=["draft"], max_tasks=1)
        tasks = (await chain.tasks.ClaimTasks(claim)).tasks
        return tasks[0] if tasks else None

    task = await eventually(claimed, timeout_seconds=20)
    assert task is not None
    await begin_draft(chain.asr, draft, version=task.version)
    await save_draft(chain.asr, draft, version=task.version)
    async with chain.worker():
        ended = await ended_task(chain, draft.draft_task_id)
    assert ended.status == task_pb2.TASK_STATUS_COMPLETED
    assert ended.draft_url.endswith(stored(f"drafts/{project.id}/{draft.id}/").media_key)


async def test_a_clip_whose_file_is_gone_fails_the_draft_and_not_the_project(chain: Chain) -> None:
    project = await completed_project(chain.asr, "clip-gone")
    draft = await ask(chain.asr, project)
    async with chain.worker():
        done = await finished_draft(chain, draft.id)
        task = await ended_task(chain, draft.draft_task_id)
    assert (done.draft_status, done.error_reason) == (ENDED[1], "CLIP_MISSING")
    assert task.error_message.startswith("CLIP_MISSING")
    assert (await chain.asr.reread(project)) == project


async def test_a_cancelled_task_fails_its_draft_alone(chain: Chain) -> None:
    project = await completed_project(chain.asr, "draft-cancelled")
    draft = await ask(chain.asr, project)

    async def there() -> bool:
        known = task_service_pb2.BatchGetTasksRequest(task_ids=[draft.draft_task_id])
        return bool((await chain.tasks.BatchGetTasks(known)).tasks)

    await eventually(there, timeout_seconds=20)
    await chain.tasks.CancelTask(task_service_pb2.CancelTaskRequest(task_id=draft.draft_task_id))
    done = await finished_draft(chain, draft.id)
    assert (done.draft_status, done.error_reason) == (ENDED[1], "CANCELLED")
    assert (await chain.asr.reread(project)) == project


async def test_a_store_that_is_full_at_the_last_step_costs_nothing_but_time(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, puts = [True], list[str]()
    real = LocalStore.put_file

    async def put_file(self: LocalStore, key: str, path: Path) -> None:
        puts.append(key)
        if key.endswith(".zip") and full[0]:
            raise StoreUnavailable("no room left")
        await real(self, key, path)

    monkeypatch.setattr(LocalStore, "put_file", put_file)
    material = await chain.asr.transcribed("full-store")
    project = await chain.asr.project(material.id, mode=BOTH, keywords="再见")
    async with chain.worker():

        async def noted() -> bool:
            found = await chain.asr.reread(project)
            return found.error_reason == "STORE_UNAVAILABLE"

        await eventually(noted, timeout_seconds=60)
        assert [key async for key in chain.asr.store.list(f"drafts/{project.id}/")] == []
        full[0] = False
        done = await chain.finished(project)
        task = await ended_task(chain, project.slice_task_id)
    assert (done.clip_count, done.error_reason) == (1, "")
    assert task.attempt == 1
    assert len([key for key in puts if key.endswith(".mp4") and key.startswith("clips/")]) == 1


async def test_two_runs_at_once_share_no_folder(chain: Chain) -> None:
    """Two workers, two projects of one recording: each result is whole."""
    material = await chain.asr.transcribed("side-by-side")
    projects = [
        await chain.asr.project(material.id, name="同名", mode=BOTH, keywords="再见", draft_format=OTIO)
        for _ in range(2)
    ]
    async with chain.worker(), chain.worker():
        done = [await chain.finished(project) for project in projects]
    drafts = [await reread(chain.asr, found.editing_draft_id) for found in done]
    assert len({draft.file_name for draft in drafts}) == 2
    for draft in drafts:
        assert (await chain.asr.store.head(draft.media_key)) is not None
