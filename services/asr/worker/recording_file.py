"""A recording on its way into a local file: written and hashed off the event loop."""

from __future__ import annotations

import asyncio
import hashlib
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Self


class RecordingFile:
    """A file that grows at its end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._digest = hashlib.sha1(usedforsecurity=False)
        self._file: FileIO | None = None

    def __enter__(self) -> Self:
        # unbuffered: nothing is left that closing the file would have to write, on a full disk once more
        self._file = self.path.open("wb+", buffering=0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def sha1(self) -> str:
        """The hash of all bytes so far, 40 hex digits."""
        return self._digest.hexdigest()

    async def write(self, chunk: bytes) -> None:
        """Append a chunk. Raises OSError."""
        await asyncio.to_thread(self._write, chunk)

    async def read(self, start: int) -> bytes:
        """Return the bytes from `start` on."""
        return await asyncio.to_thread(self._read, start)

    async def clear(self) -> None:
        """Begin again with an empty file."""
        await asyncio.to_thread(self._opened().truncate, 0)
        self._opened().seek(0)
        self.size = 0
        self._digest = hashlib.sha1(usedforsecurity=False)

    def _write(self, chunk: bytes) -> None:
        file, rest = self._opened(), memoryview(chunk)
        while rest:
            rest = rest[file.write(rest) :]
        self._digest.update(chunk)
        self.size += len(chunk)

    def _read(self, start: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(start)
            return file.read(self.size - start)

    def _opened(self) -> FileIO:
        if self._file is None:
            raise RuntimeError("the file is open inside `with` only")
        return self._file
