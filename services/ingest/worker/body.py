"""Take a response's body into a file: unpacked, hashed, and never more than the limit."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Self

from libs.common.fetch_problems import MachineTrouble
from services.ingest.worker.problems import ImageProblem

# What is unpacked at once: a bomb that is a thousand times as large inside is met a part at a time.
PART_BYTES = 1 << 18
Unpacked = Callable[[bytes], Iterable[bytes]]


class Sink:
    """Write and hash, up to a limit. A disk that is full is the worker's trouble, not the image's."""

    def __init__(self, target: Path, limit: int) -> None:
        self._target, self._limit = target, limit
        self._file: FileIO | None = None
        self.sha1 = hashlib.sha1(usedforsecurity=False)
        self.sha256 = hashlib.sha256()
        self.size = 0

    def __enter__(self) -> Self:
        try:
            # unbuffered: nothing is left that closing the file would have to write, on a full disk once more
            self._file = self._target.open("wb", buffering=0)
        except OSError as error:
            raise _scratch(error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def take(self, chunk: bytes, unpack: Unpacked) -> None:
        """Unpack a chunk and write each part before the next is made. Raises as `write` and `unpack`."""
        for part in unpack(chunk):
            self.write(part)

    def write(self, chunk: bytes) -> None:
        """Take a chunk. Raises ImageProblem beyond the limit, MachineTrouble when it can't be written."""
        assert self._file is not None
        self.size += len(chunk)
        if self.size > self._limit:
            raise too_large(self._limit)
        self.sha1.update(chunk)
        self.sha256.update(chunk)
        rest = memoryview(chunk)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise _scratch(error) from error


class Unpack:
    """Undo gzip or deflate without ever holding more than a part: a bomb ends at the sink's limit."""

    def __init__(self, window_bits: int) -> None:
        self._decoder = zlib.decompressobj(wbits=window_bits)

    def __call__(self, chunk: bytes) -> Iterator[bytes]:
        """Yield what a chunk unpacks to, at most PART_BYTES at a time; what follows the end is left out."""
        part, rest = b"", chunk
        # a full part may have more behind it that the decoder holds already, even with nothing left to read
        while (rest or len(part) == PART_BYTES) and not self._decoder.eof:
            try:
                part = self._decoder.decompress(rest, PART_BYTES)
            except zlib.error as error:
                raise ImageProblem("CUT_SHORT", "the compressed response is broken") from error
            rest = self._decoder.unconsumed_tail
            yield part


def unpacker(encoding: str) -> Unpacked:
    """Return what undoes a Content-Encoding. Raises ImageProblem for one that nobody asked for."""
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return _as_it_is
    if name in {"gzip", "x-gzip", "deflate"}:
        return Unpack(zlib.MAX_WBITS if name == "deflate" else 16 + zlib.MAX_WBITS)
    raise ImageProblem("ENCODING", "the response has a content encoding that was not asked for")


def _as_it_is(chunk: bytes) -> Iterable[bytes]:
    return (chunk,)


def too_large(limit: int) -> ImageProblem:
    """Return the problem of a body beyond the limit."""
    return ImageProblem("TOO_LARGE", f"larger than {limit} bytes")


def _scratch(error: OSError) -> MachineTrouble:
    return MachineTrouble(f"the scratch folder failed: {error.strerror}")
