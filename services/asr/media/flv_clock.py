"""The clock of an FLV recording, which begins anew when its stream comes back or a server's clock is set.

Of transport streams ffmpeg mends that by itself; in FLV it believes every time, and what comes behind a jump
back would fall together in one moment. The rule here is the same as there: a jump adds no time.
"""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from libs.common import child
from services.asr.media import trouble
from services.asr.media.errors import FfmpegFailed, FfmpegTimeout

_SIGNATURE = b"FLV"
_HEADER_BYTES, _TAG_BYTES, _TAG_END_BYTES = 9, 11, 4
_AUDIO, _VIDEO, _SCRIPT = 8, 9, 18
# As ffmpeg has it for transport streams: more than this ahead is a jump, and so is this much back.
_AHEAD_MS, _BACK_MS = 10_000, 100
# How long a packet lasts is guessed from the one before it.
_LONGEST_PACKET_MS = 1000
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class _Tag:
    """A tag's place in the file and its length, head included.

    `timed`: its time counts, which that of an encoder's header does not.
    """

    at: int
    length: int
    kind: int
    time_ms: int
    timed: bool


@dataclass
class _Clock:
    """Turns the times of tags, in the file's order, into those of a clock without jumps."""

    jumped: bool = False
    _shift: dict[int, int] = field(default_factory=dict)
    _last: dict[int, int] = field(default_factory=dict)
    _lasting: dict[int, int] = field(default_factory=dict)

    def time_of(self, tag: _Tag) -> int:
        """Return when a tag is, in milliseconds."""
        if not tag.timed:
            return max(0, self._end())
        shift = self._shift_for(tag)
        time = tag.time_ms + shift
        lasting = time - self._last.get(tag.kind, time)
        if 0 < lasting <= _LONGEST_PACKET_MS:
            self._lasting[tag.kind] = lasting
        self._shift[tag.kind], self._last[tag.kind] = shift, time
        return time

    def _shift_for(self, tag: _Tag) -> int:
        """Return what is added to a tag's time: as before, else as for the other kind, else anew."""
        own = self._shift.get(tag.kind, next(iter(self._shift.values()), 0))
        for shift in (own, *self._shift.values()):
            if self._follows(tag, tag.time_ms + shift):
                self.jumped = self.jumped or shift != own
                return shift
        self.jumped = True
        return self._end() - tag.time_ms

    def _follows(self, tag: _Tag, time: int) -> bool:
        if not self._last:
            return True
        return self._last.get(tag.kind, time) - _BACK_MS <= time <= self._end() + _AHEAD_MS

    def _end(self) -> int:
        return max((time + self._lasting.get(kind, 0) for kind, time in self._last.items()), default=0)


def jumps(path: Path) -> bool:
    """Tell whether an FLV recording's clock jumps. Reads the heads of its tags only."""
    clock = _Clock()
    with path.open("rb") as file:
        for found in _tags(file):
            if isinstance(found, int):
                return True
            clock.time_of(found)
            if clock.jumped:
                return True
    return False


async def mend(path: Path, out: Path, *, timeout_seconds: float) -> None:
    """Write an FLV recording again, with times that go on where its clock jumps.

    In a process of its own: it may copy for long, and must be stoppable.

    Raises:
        MediaInfrastructure, Undecided: this machine is at fault, or nobody can tell.
        FfmpegFailed: it broke.
    """
    argv = [sys.executable, "-m", "services.asr.media.flv_clock", str(path), str(out)]
    try:
        done = await child.run(argv, timeout_seconds=timeout_seconds)
    except child.ChildTimeout as error:
        raise FfmpegTimeout(f"mending the clock was stopped after {timeout_seconds:.0f} s") from error
    if done.returncode == 0:
        return
    ours = await asyncio.to_thread(trouble.of_program, done, inputs=[path], paths=[path, out])
    said = trouble.without_paths(done.stderr_text, [path, out]).strip().rpartition("\n")[2]
    raise ours or FfmpegFailed(f"mending the clock failed: {said[-500:]}")


def mend_blocking(path: Path, out: Path) -> None:
    """Do `mend` in this process."""
    clock = _Clock()
    with path.open("rb") as file, path.open("rb") as content, out.open("wb") as mended:
        at = _copied(content, mended, 0, _HEADER_BYTES + _TAG_END_BYTES)
        for found in _tags(file):
            if isinstance(found, int):
                at = found
                continue
            head = _read(content, found.at, _TAG_BYTES)
            time = clock.time_of(found) & 0xFFFFFFFF
            mended.write(head[:4] + (time & 0xFFFFFF).to_bytes(3, "big") + bytes([time >> 24]) + head[8:])
            at = _copied(content, mended, found.at + _TAG_BYTES, found.at + found.length)
        # what can't be read as tags any more is for the demuxer, which searches on
        _copied(content, mended, at, path.stat().st_size)


def _tags(file: BinaryIO) -> Iterator[_Tag | int]:
    """Yield the tags of a file as far as they can be followed; an int is where the next file's tags begin.

    Some recorders write the header of a new file into the one that they go on with.
    """
    at = _HEADER_BYTES + _TAG_END_BYTES
    while True:
        file.seek(at)
        head = file.read(_TAG_BYTES + 2)
        if len(head) < _TAG_BYTES + 2:
            return
        if head.startswith(_SIGNATURE):
            at += int.from_bytes(head[5:9], "big") + _TAG_END_BYTES
            yield at
            continue
        kind, size = head[0] & 0x1F, int.from_bytes(head[1:4], "big")
        if kind not in {_AUDIO, _VIDEO, _SCRIPT}:
            return
        (time,) = struct.unpack(">i", head[7:8] + head[4:7])
        length = _TAG_BYTES + size + _TAG_END_BYTES
        yield _Tag(at, length, kind, time, timed=size > 0 and not _is_header(kind, head[_TAG_BYTES:]))
        at += length


def _is_header(kind: int, begin: bytes) -> bool:
    """Tell whether a tag holds no sound or picture: many servers give an encoder's header the time 0."""
    if kind == _SCRIPT:
        return True
    # the newer form of either has the kind of packet in the low bits
    if kind == _AUDIO:
        return begin[1] == 0 if begin[0] >> 4 == 10 else begin[0] == 0x90
    if begin[0] & 0x80:
        return begin[0] & 0x0F in {0, 4}
    return begin[0] & 0x0F in {7, 12, 13} and begin[1] != 1


def _read(file: BinaryIO, at: int, count: int) -> bytes:
    file.seek(at)
    return file.read(count)


def _copied(source: BinaryIO, target: BinaryIO, begin: int, end: int) -> int:
    """Copy the bytes from `begin` to `end`; returns `end`."""
    source.seek(begin)
    while begin < end and (block := source.read(min(_BLOCK_BYTES, end - begin))):
        target.write(block)
        begin += len(block)
    return end


if __name__ == "__main__":
    mend_blocking(Path(sys.argv[1]), Path(sys.argv[2]))
