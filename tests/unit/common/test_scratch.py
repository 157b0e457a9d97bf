"""A run's own folder: never shared, and swept when its worker was killed."""

import os
import subprocess
import sys
from pathlib import Path

from libs.common.scratch import run_folder, sweep

HOLD = """
import sys
from pathlib import Path
from libs.common.scratch import run_folder
with run_folder(Path(sys.argv[1]), "asr") as folder:
    (folder / "audio.wav").write_bytes(b"x")
    print("READY", flush=True)
    sys.stdin.read()
"""


def holder(root: Path) -> subprocess.Popen[bytes]:
    """Start a process that has a folder, and wait until it has."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"READY\n"
    return process


def test_two_runs_never_share_a_folder_and_both_are_removed(tmp_path: Path) -> None:
    with run_folder(tmp_path, "asr") as one, run_folder(tmp_path, "asr") as two:
        assert one != two
        (one / "audio.wav").write_bytes(b"x")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_worker_left_is_swept_and_what_lives_stays(tmp_path: Path) -> None:
    (tmp_path / "slicing-of-another-kind").mkdir()
    with holder(tmp_path) as killed, holder(tmp_path) as alive, run_folder(tmp_path, "asr") as mine:
        assert sweep(tmp_path, "asr") == 0
        killed.kill()
        killed.wait()
        assert sweep(tmp_path, "asr") == 1
        assert mine.is_dir()
        assert len(list(tmp_path.glob("asr-*/audio.wav"))) == 1
        alive.communicate(b"")
        assert alive.returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["slicing-of-another-kind"]


def test_what_a_worker_of_the_release_before_works_in_stays_while_that_lives(tmp_path: Path) -> None:
    """It locks no folder, and shares the root during an upgrade."""
    with holder(tmp_path / "elsewhere") as gone:
        gone.communicate(b"")
    for pid in (os.getpid(), gone.pid):
        (tmp_path / f"slicing-{pid}-le4itfdq").mkdir()
    assert sweep(tmp_path, "slicing") == 1
    assert (tmp_path / f"slicing-{os.getpid()}-le4itfdq").is_dir()


def test_a_sweep_of_a_folder_that_is_not_there_finds_nothing(tmp_path: Path) -> None:
    assert sweep(tmp_path / "none", "asr") == 0
