"""Progress only rises, is sent in the background, and a refusal stops the run."""

import os
from pathlib import Path

from libs.common.testing import eventually
from services.asr.worker.peers import AsrUnreachable, RunLost
from services.asr.worker.progress import Progress
from services.asr.worker.scratch import run_folder, sweep


async def test_out_of_order_reports_are_dropped_and_the_newest_is_sent() -> None:
    sent: list[int] = []
    told: list[int] = []

    async def send(percent: int) -> None:
        sent.append(percent)

    async with Progress(send, told.append, lambda _: None) as progress:
        for done in (0, 50_000, 20_000, 99_000, 100_000):
            progress.position(done, 100_000)
        await eventually(lambda: sent[-1:] == [95])
    assert sent == sorted(sent)
    assert told == [5, 50, 94, 95]


async def test_a_report_that_fails_is_only_a_warning() -> None:
    calls: list[int] = []

    async def send(percent: int) -> None:
        calls.append(percent)
        raise AsrUnreachable("no")

    lost: list[Exception] = []
    async with Progress(send, lambda _: None, lost.append) as progress:
        progress.report(10)
        await eventually(lambda: calls == [10])
        progress.report(20)
        await eventually(lambda: calls == [10, 20])
    assert lost == []


async def test_a_lost_lease_is_told_at_once() -> None:
    async def send(percent: int) -> None:
        raise RunLost("gone")

    lost: list[Exception] = []
    async with Progress(send, lambda _: None, lost.append) as progress:
        progress.report(10)
        await eventually(lambda: len(lost) == 1)


def test_two_runs_never_share_a_folder_and_both_are_removed(tmp_path: Path) -> None:
    with run_folder(tmp_path) as one, run_folder(tmp_path) as two:
        assert one != two
        (one / "audio.wav").write_bytes(b"x")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_worker_left_is_swept_and_what_lives_stays(tmp_path: Path) -> None:
    (tmp_path / "asr-999999999-gone").mkdir()
    mine = tmp_path / f"asr-{os.getpid()}-mine"
    mine.mkdir()
    (tmp_path / "other").mkdir()
    assert sweep(tmp_path) == 1
    assert {path.name for path in tmp_path.iterdir()} == {mine.name, "other"}
