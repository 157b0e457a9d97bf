"""Whose fault a failed program is: the machine's, the recording's, or nobody's to tell."""

import errno
import os
import signal
from pathlib import Path

import pytest

from libs.common.child import Completed
from services.asr.media import trouble
from services.asr.media.errors import DiskFull, FfmpegKilled, InputGone, OutOfMemory, SystemTrouble

# a process's memory has nothing at 0: reading there is an error of the device
ILL = Path("/proc/self/mem")


def judged(said: str, *, code: int = 1, inputs: tuple[Path, ...] = ()) -> Exception | None:
    done = Completed(code, b"", said)
    return trouble.of_program(done, inputs=inputs, paths=inputs)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_program_without_room_says_so(number: int) -> None:
    found = judged(f"[out#0/mp4] Error writing trailer: {os.strerror(number)}\nConversion failed!")
    assert isinstance(found, DiskFull)
    assert found.reason == "DISK_FULL"


@pytest.mark.parametrize(
    "number", [errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EAGAIN]
)
def test_what_a_program_could_not_write_or_begin_is_the_machines(number: int) -> None:
    found = judged(f"Error opening output file a.mp4.\nError opening output files: {os.strerror(number)}")
    assert isinstance(found, SystemTrouble)
    assert found.reason == errno.errorcode[number]


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM"])
def test_a_program_that_a_signal_ended_may_be_ill_of_the_recording_or_of_the_machine(name: str) -> None:
    number = signal.Signals[name]
    assert isinstance(judged("", code=-number), FfmpegKilled)


@pytest.mark.parametrize(
    "said",
    [
        "Error opening input: Cannot allocate memory",
        "[vist#0:0/h264] [dec:h264] Error submitting packet to decoder: Cannot allocate memory\nfailed!",
    ],
)
def test_memory_that_a_recording_asks_for_is_charged(said: str) -> None:
    assert isinstance(judged(said), OutOfMemory)


def test_memory_that_an_encoder_could_not_have_is_the_machines() -> None:
    found = judged("x264 [error]: malloc of size 1382400 failed\nGeneric error in an external library")
    assert isinstance(found, SystemTrouble)
    assert found.reason == "ENOMEM"


def test_an_input_that_this_machine_cannot_read_is_its_disks_trouble(tmp_path: Path) -> None:
    readable = tmp_path / "a.mp4"
    readable.write_bytes(b"broken")
    said = "Error opening input: Input/output error"
    assert judged(said, inputs=(readable,)) is None
    found = judged(said, inputs=(readable, ILL))
    assert isinstance(found, SystemTrouble)
    assert found.reason == "EIO"


GONE = [
    "Error opening input: {}\nError opening input file canonical-1.mp4.\nError opening input files: {}",
    "av.error.FileNotFoundError: [Errno 2] {}: 'canonical-1.mp4'",
]


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENOTDIR, errno.ESTALE, errno.EACCES])
@pytest.mark.parametrize("said", GONE)
def test_an_input_whose_disk_is_away_is_this_machines_trouble(said: str, number: int, tmp_path: Path) -> None:
    text, away = os.strerror(number), tmp_path / "away" / "a.mp4"
    found = judged(said.format(text, text), inputs=(away,))
    assert isinstance(found, SystemTrouble)
    assert found.reason == "INPUT_GONE"
    assert isinstance(trouble.of_error(OSError(number, text), [away], said=""), SystemTrouble)


@pytest.mark.parametrize("said", GONE)
def test_an_input_that_is_there_again_is_tried_again_and_charged(said: str, tmp_path: Path) -> None:
    """Bytes may name files that never were there."""
    (tmp_path / "a.mp4").write_bytes(b"whole")
    text = os.strerror(errno.ENOENT)
    assert isinstance(judged(said.format(text, text), inputs=(tmp_path / "a.mp4",)), InputGone)


def test_what_names_no_trouble_of_the_machine_is_the_recordings() -> None:
    assert judged("Error opening input: Invalid data found when processing input") is None


def test_nothing_that_is_told_names_a_folder(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff \xe7\x9b\xb4.mp4")
    decoded = os.fsencode(path).decode("utf-8", "replace")
    said = f"Error opening input file file:{decoded}.\n{tmp_path}/other.mp4: no"
    told = trouble.without_paths(said, [path, tmp_path / "a longer name than the other.mp4"])
    assert str(tmp_path) not in told
    assert "直.mp4." in told
