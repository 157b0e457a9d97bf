"""Drafts of real clips at every rate: what the timeline says is what the files inside hold, to the frame."""

from __future__ import annotations

import asyncio
import json
import zipfile
from fractions import Fraction
from pathlib import Path

import opentimelineio as otio
import pytest
from frontrow.asr.v1 import clip_pb2

from libs.common.objects.local import LocalStore
from services.asr.media import canonical, cut
from services.asr.media.probe import probe
from services.asr.slicing.drafts.make import ClipMissing, DraftMaker, Source
from services.asr.slicing.drafts.write import FORMATS, Order
from services.asr.slicing.selection import Said
from tests.integration.media.recordings import frame_numbers, frame_times, record, remake

RATES = ("24000/1001", "25", "30000/1001", "30", "60")
SPANS = ((1234, 4321), (5005, 11_017))


async def clips_of(folder: Path, store: LocalStore, fps: str) -> list[clip_pb2.Clip]:
    """Cut clips out of a recording whose sound outlasts its picture, and store them."""
    made = await canonical.make(
        record(folder / "live.mp4", fps=fps, audio_seconds=12.7),
        folder / "c.mp4",
        await probe(folder / "live.mp4"),
    )
    clips = []
    for position, (start, end) in enumerate((*SPANS, (11_500, 13_000))):
        done = await cut.cut(made.path, folder / "clip.mp4", start, end, media=made.media)
        key = f"clips/p/{position}.mp4"
        await store.put_file(key, folder / "clip.mp4")
        clips.append(
            clip_pb2.Clip(
                id=f"c{position}",
                title=f"第{position}段 100%20",
                position=position,
                start_ms=done.start_ms,
                end_ms=done.end_ms,
                media_key=key,
                size_bytes=(folder / "clip.mp4").stat().st_size,
            )
        )
    return clips


@pytest.mark.parametrize("fps", RATES)
async def test_every_format_is_within_a_frame_of_the_files_inside(tmp_path: Path, fps: str) -> None:
    store, rate = LocalStore(tmp_path / "store"), Fraction(fps)
    clips = await clips_of(tmp_path, store, fps)
    said = [Said(i, at, at + 900, f"第{i}句") for i, at in enumerate(range(1300, 12_000, 1000))]
    source = Source("直播", "0198-abcdef123456", clips, said)
    for draft_format in sorted(FORMATS):
        scratch = tmp_path / draft_format
        scratch.mkdir()
        shares: list[float] = []
        made = await DraftMaker(store, "drafts/p/own/", Order(draft_format), scratch).make(
            source, shares.append
        )
        assert shares == sorted(shares)
        assert shares[-1] == 1.0
        assert (Fraction(made.frame_rate), made.media_key) == (rate, f"drafts/p/own/{made.sha1}.zip")
        with zipfile.ZipFile(await _stored(store, made.media_key)) as packed:
            packed.extractall(scratch)
        folder = scratch / source.folder
        media = sorted((folder / ("materials" if draft_format == "jianying" else "media")).glob("*.mp4"))
        counts = [len(await asyncio.to_thread(frame_numbers, path)) for path in media]
        assert abs(made.duration_ms * rate / 1000 - sum(counts)) <= len(counts)
        for length, count, path in zip(_lengths(folder, draft_format, rate), counts, media, strict=True):
            # a last frame that the clip shows for a moment only is none of the timeline's
            assert count - 1 - Fraction(1, 1000) <= length <= count + Fraction(1, 1000), path
            shown = await asyncio.to_thread(frame_times, path)
            assert shown[0][1] == pytest.approx(0, abs=float(1 / rate))


@pytest.mark.parametrize("end", [4321, 11_017])
async def test_a_draft_of_an_upright_recording_is_upright(tmp_path: Path, end: int) -> None:
    """A clip that is encoded again is stored as it is shown, one that is copied is turned by who plays it."""
    store = LocalStore(tmp_path / "store")
    lying = record(tmp_path / "lying.mp4")
    live = remake(lying, tmp_path / "live.mp4", "-c", "copy", before=("-display_rotation", "90"))
    made = await canonical.make(live, tmp_path / "c.mp4", await probe(live))
    done = await cut.cut(made.path, tmp_path / "clip.mp4", 1234, end, media=made.media)
    await store.put_file("clips/p/0.mp4", tmp_path / "clip.mp4")
    clip = clip_pb2.Clip(
        id="c", title="竖屏", start_ms=done.start_ms, end_ms=done.end_ms, media_key="clips/p/0.mp4"
    )
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    draft = await DraftMaker(store, "drafts/p/own/", Order("jianying"), scratch).make(
        Source("竖屏", "0198-abcdef123456", [clip], []), lambda share: None
    )
    with zipfile.ZipFile(await _stored(store, draft.media_key)) as packed:
        name = next(name for name in packed.namelist() if name.endswith("draft_content.json"))
        content = json.loads(packed.read(name))
    sizes = [content["canvas_config"], *content["materials"]["videos"]]
    assert {(size["width"], size["height"]) for size in sizes} == {(120, 208)}


async def _stored(store: LocalStore, key: str) -> Path:
    async with store.local_path(key) as path:
        return path


def _lengths(folder: Path, draft_format: str, rate: Fraction) -> list[Fraction]:
    """Return the lengths of the clips in frames, as the draft says them."""
    if draft_format == "jianying":
        content = json.loads((folder / "draft_content.json").read_text())
        spans = [segment["source_timerange"]["duration"] for segment in content["tracks"][0]["segments"]]
        return [Fraction(span, 1_000_000) * rate for span in spans]
    if draft_format == "otio":
        timeline = otio.adapters.read_from_string((folder / "timeline.otio").read_text(), "otio_json")
        return [Fraction(int(clip.duration().value)) for clip in timeline.tracks[0]]
    if draft_format == "fcp7_xml":
        timeline = otio.adapters.read_from_string((folder / "timeline.xml").read_text(), "fcp_xml")
        return [Fraction(int(clip.duration().value)) for clip in timeline.tracks[0]]
    # subtitles say nothing of lengths: the files' own count
    return [Fraction(len(frame_numbers(path))) for path in sorted((folder / "media").glob("*.mp4"))]


async def test_a_draft_made_again_is_found_in_the_store_and_not_put_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path / "store")
    source = Source("直播", "0198-abcdef123456", await clips_of(tmp_path, store, "25"), [])
    keys = []
    for number in range(2):
        scratch = tmp_path / str(number)
        scratch.mkdir()
        made = await DraftMaker(store, "drafts/p/own/", Order("otio"), scratch).make(
            source, lambda share: None
        )
        keys.append(made.media_key)
        monkeypatch.setattr(LocalStore, "put_file", None)
    assert keys[0] == keys[1]


async def test_a_clip_that_is_gone_is_named(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    clips = await clips_of(tmp_path, store, "25")
    await store.delete(clips[1].media_key)
    source = Source("直播", "0198-abcdef123456", clips, [])
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with pytest.raises(ClipMissing, match="第1段"):
        await DraftMaker(store, "drafts/p/own/", Order("otio"), scratch).make(source, lambda share: None)
    assert [key async for key in store.list("drafts/")] == []


async def test_a_run_that_is_cancelled_leaves_no_thread_that_writes(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    clips = await clips_of(tmp_path, store, "25")
    source = Source("直播", "0198-abcdef123456", clips * 40, [])
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    maker = DraftMaker(store, "drafts/p/own/", Order("otio"), scratch)

    def on_progress(share: float) -> None:
        loop.call_soon_threadsafe(begun.set)

    making = asyncio.create_task(maker.make(source, on_progress))
    await begun.wait()
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    size = (scratch / "draft.zip").stat().st_size
    assert [key async for key in store.list("drafts/")] == []
    assert (scratch / "draft.zip").stat().st_size == size
