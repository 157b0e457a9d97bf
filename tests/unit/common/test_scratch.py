"""A run's own folder: never shared, and swept when its worker was killed."""

import os
from pathlib import Path

from libs.common.scratch import run_folder, sweep


def test_two_runs_never_share_a_folder_and_both_are_removed(tmp_path: Path) -> None:
    with run_folder(tmp_path, "asr") as one, run_folder(tmp_path, "asr") as two:
        assert one != two
        (one / "audio.wav").write_bytes(b"x")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_worker_left_is_swept_and_what_lives_stays(tmp_path: Path) -> None:
    (tmp_path / "asr-999999999-gone").mkdir()
    mine = tmp_path / f"asr-{os.getpid()}-mine"
    mine.mkdir()
    others = {"other", "slicing-999999999-gone"}
    for name in others:
        (tmp_path / name).mkdir()
    assert sweep(tmp_path, "asr") == 1
    assert {path.name for path in tmp_path.iterdir()} == {mine.name, *others}
