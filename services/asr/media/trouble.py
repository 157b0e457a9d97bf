"""Whose fault it is that a program, or a library, could not work on a recording: told by what it said."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from libs.common import machine
from libs.common.child import Completed
from services.asr.media.errors import DiskFull, FfmpegKilled, InputGone, OutOfMemory, SystemTrouble

_READ_BYTES = 1 << 20
# What reads and decodes can be told by the recording's bytes to want any amount of memory.
_OF_THE_BYTES = re.compile(r"\[dec:|decod|input|demux", re.IGNORECASE)
# x264's and x265's own words; what becomes of it, "generic error", names nothing.
_NO_MEMORY = re.compile(r"malloc of size \d+ failed")
# What the system says of a file whose disk is away.
_GONE = {
    number: os.strerror(number)
    for number in (errno.ENOENT, errno.ENOTDIR, errno.ESTALE, errno.ENODEV, errno.ENXIO, errno.EACCES)
}


def of_program(done: Completed, *, inputs: Sequence[Path], paths: Iterable[Path]) -> Exception | None:
    """Return what a program that failed says of this machine; None: it says nothing, so it's the recording.

    `inputs` are the files that it read: whether an error of reading is the disk's is seen by reading them.
    `paths` are all that it was given; none of them is in the error's message. Blocks: it may read for long.
    """
    said = without_paths(done.stderr_text, paths)
    if done.returncode < 0:
        return FfmpegKilled(f"a program was ended by signal {-done.returncode}: {said[-200:]}".rstrip(": "))
    said = _NO_MEMORY.sub(os.strerror(errno.ENOMEM), said)
    told = machine.told_in(said)
    if told is None:
        gone = next(
            (line.strip() for line in said.splitlines() if any(t in line for t in _GONE.values())), None
        )
        return None if gone is None else _of_gone(inputs, gone)
    text = str(told.strerror)
    lines = [line.strip() for line in said.splitlines() if text in line]
    # the error's own text names input and output
    of_the_bytes = any(_OF_THE_BYTES.search(line.replace(text, "")) for line in lines)
    return of_error(told, inputs if of_the_bytes else None, said=lines[-1])


def of_error(error: Exception, inputs: Sequence[Path] | None, *, said: str) -> Exception | None:
    """Return what an error says of this machine; None: it isn't the system's, or may well be the recording's.

    `inputs` are the files at whose reading it came up; None: it didn't.
    """
    if not isinstance(error, OSError | MemoryError):
        return None
    number = getattr(error, "errno", errno.ENOMEM)
    if number in _GONE:
        return _of_gone(inputs or (), said)
    if number == errno.ENOMEM and inputs is not None:
        return OutOfMemory(f"no memory was to be had for reading the recording: {said}")
    # demuxers say so of broken bytes, too
    broken = number == errno.EIO and inputs is not None and all(map(_can_be_read, inputs))
    found = OSError(number, os.strerror(number))
    if broken or not machine.is_machines(found):
        return None
    if machine.is_full(found):
        return DiskFull(f"the scratch folder's disk is full: {said}")
    return SystemTrouble(machine.reason_of(found), f"this machine is in trouble: {said}")


def raise_ours(error: Exception, path: Path) -> None:
    """Raise what a library's error at reading a file says of this machine; return when it says nothing."""
    ours = of_error(error, [path], said=getattr(error, "strerror", None) or "unreadable")
    if ours is not None:
        raise ours from error


def _of_gone(inputs: Sequence[Path], said: str) -> Exception:
    """Return what a file that wasn't found means: it was there when the work began."""
    if all(map(_can_be_opened, inputs)):
        return InputGone(f"a file wasn't there when it was opened: {said}")
    return SystemTrouble(InputGone.reason, f"the recording can't be opened now; is its disk mounted? {said}")


def _can_be_opened(path: Path) -> bool:
    try:
        path.open("rb").close()
    except OSError:
        return False
    return True


def _can_be_read(path: Path) -> bool:
    try:
        with path.open("rb", buffering=0) as file:
            while file.read(_READ_BYTES):
                pass
    except OSError as error:
        return not machine.is_machines(error)
    return True


def without_paths(said: str, paths: Iterable[Path]) -> str:
    """Return what a program said, with the names of its files alone: no folder of this machine."""
    files = sorted(set(paths), key=lambda path: -len(str(path)))
    # the folders last: they begin the files' paths
    for known, shown in [(path, path.name) for path in files] + [(path.parent, "") for path in files]:
        # as it was decoded: a name's bytes may be no UTF-8
        text = os.fsencode(known).decode("utf-8", "replace")
        if text.strip("./"):
            said = said.replace(f"file:{text}", shown).replace(text, shown)
    return said
