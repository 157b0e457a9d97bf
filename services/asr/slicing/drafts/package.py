"""One zip of a draft: the same bytes whenever the same draft is packed again."""

from __future__ import annotations

import hashlib
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

_READ_BYTES = 1 << 20
# Times would make every zip another one; this is the first that the format can hold.
_TIME = (1980, 1, 1, 0, 0, 0)
_FILE_MODE = 0o644 << 16


class Stopped(Exception):
    """Packing was told to stop."""


class Package:
    """A zip under way, all in one folder. Its methods block; `stop` may be called from another thread."""

    def __init__(self, path: Path, folder: str) -> None:
        self._path = path
        self._folder = folder
        self._zip = zipfile.ZipFile(path, "x")
        self._stop = threading.Event()

    def __enter__(self) -> Package:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()

    def stop(self) -> None:
        """Have `add_file` raise Stopped within a moment."""
        self._stop.set()

    def add_text(self, name: str, text: str) -> None:
        """Add a file of text, compressed."""
        self._zip.writestr(self._entry(name, zipfile.ZIP_DEFLATED), text.encode())

    def add_file(self, name: str, path: Path, on_bytes: Callable[[int], None]) -> None:
        """Add a file of media as it is; `on_bytes` is told the number of each step.

        Raises:
            Stopped.
        """
        entry = self._entry(name, zipfile.ZIP_STORED)
        entry.file_size = path.stat().st_size
        with path.open("rb") as source, self._zip.open(entry, "w") as target:
            while chunk := source.read(_READ_BYTES):
                if self._stop.is_set():
                    raise Stopped
                target.write(chunk)
                on_bytes(len(chunk))

    def _entry(self, name: str, compression: int) -> zipfile.ZipInfo:
        entry = zipfile.ZipInfo(f"{self._folder}/{name}", _TIME)
        entry.compress_type = compression
        entry.external_attr = _FILE_MODE
        return entry


def size_and_sha1(path: Path) -> tuple[int, str]:
    """Return the length of a file in bytes and its SHA-1 as hex digits."""
    digest, size = hashlib.sha1(usedforsecurity=False), 0
    with path.open("rb") as file:
        while chunk := file.read(_READ_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()
