"""An object store in a local folder."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import TypeVar

from libs.common.objects.store import (
    ABANDONED_SECONDS,
    TEMPORARY_FOLDER,
    CountedErrors,
    ObjectInfo,
    ObjectMissing,
    StoreUnavailable,
    checked_key,
)

T = TypeVar("T")


class LocalStore:
    """Objects as files below one folder, which may be shared by processes of one machine.

    A file is written aside, synced, renamed into place, and its folder synced: after a power cut an object
    is there whole or not at all. What was deleted stays so: its folder is synced, too, by each delete in its
    own thread, so that those which come together share one write of the file system's journal.

    The first use makes the folder, no later one does: where a disk is unmounted, no object is missing, and
    nothing may be written beside it.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self._temporary = self._root / TEMPORARY_FOLDER
        self._was_there = False
        self._errors = CountedErrors("local", _storage_errors)

    async def put_bytes(self, key: str, data: bytes) -> None:
        """See ObjectStore."""
        target = self._path(key)
        await asyncio.to_thread(self._place, target, lambda aside: aside.write_bytes(data))

    async def put_file(self, key: str, path: Path) -> None:
        """See ObjectStore."""
        target = self._path(key)
        await asyncio.to_thread(path.stat)  # a missing source is the caller's mistake, not the store's
        await asyncio.to_thread(self._place, target, lambda aside: shutil.copyfile(path, aside))

    async def move_file(self, key: str, path: Path) -> None:
        """See ObjectStore. Within one file system no byte is copied."""
        target = self._path(key)
        await asyncio.to_thread(path.stat)
        await asyncio.to_thread(self._place, target, lambda aside: shutil.move(path, aside, shutil.copyfile))

    async def put_stream(self, key: str, chunks: AsyncIterator[bytes]) -> int:
        """See ObjectStore."""
        target = self._path(key)
        with self._errors():
            aside = await asyncio.to_thread(self._new_file)
        try:
            size = 0
            # unbuffered: nothing is left that closing the file would have to write, on a full disk once more
            with self._errors():
                file = aside.open("wb", buffering=0)
            with file:
                async for chunk in chunks:
                    with self._errors():
                        size += await asyncio.to_thread(_write_all, file, chunk)
            with self._errors():
                await asyncio.to_thread(_sync, aside)
                await asyncio.to_thread(self._rename, aside, target)
        finally:
            _discard(aside)
        return size

    async def get_bytes(self, key: str) -> bytes:
        """See ObjectStore."""
        path = self._path(key)
        with self._errors(key):
            return await asyncio.to_thread(self._found, path.read_bytes)

    async def stream(self, key: str, *, start: int = 0, chunk_bytes: int = 1 << 18) -> AsyncIterator[bytes]:
        """See ObjectStore."""
        path = self._path(key)
        with self._errors(key):
            file = await asyncio.to_thread(self._found, lambda: path.open("rb"))
        with file:
            file.seek(start)
            while True:
                with self._errors(key):
                    chunk = await asyncio.to_thread(file.read, chunk_bytes)
                if not chunk:
                    return
                yield chunk

    async def head(self, key: str) -> ObjectInfo | None:
        """See ObjectStore."""
        path = self._path(key)
        try:
            with self._errors(key):
                return ObjectInfo(size=(await asyncio.to_thread(self._found, path.stat)).st_size)
        except ObjectMissing:
            return None

    async def delete(self, key: str) -> None:
        """See ObjectStore."""
        path = self._path(key)
        with self._errors():
            await asyncio.to_thread(self._remove, path)

    async def list(self, prefix: str = "") -> AsyncIterator[str]:
        """See ObjectStore."""
        folder = self._path(prefix.rstrip("/")) if prefix.rstrip("/") else self._root
        with self._errors():
            keys = await asyncio.to_thread(self._walk, folder)
        for key in keys:
            yield key

    @asynccontextmanager
    async def local_path(self, key: str) -> AsyncIterator[Path]:
        """See ObjectStore; the caller must not write to the file."""
        if await self.head(key) is None:
            raise ObjectMissing(key)
        yield self._path(key)

    async def check(self) -> None:
        """See ObjectStore."""
        with self._errors():
            aside = await asyncio.to_thread(self._new_file)
            aside.unlink(missing_ok=True)

    async def sweep_abandoned(self, older_than_seconds: float = ABANDONED_SECONDS) -> int:
        """See ObjectStore."""
        with self._errors():
            return await asyncio.to_thread(self._sweep, time.time() - older_than_seconds)

    def _path(self, key: str) -> Path:
        return self._root / checked_key(key)

    def _found(self, look: Callable[[], T]) -> T:
        """Return what a look at an object returns; where it isn't found, the folder itself must be there."""
        try:
            return look()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            self._require()
            raise

    def _require(self) -> None:
        """Raise OSError, never one that tells of a missing object, unless the folder is there."""
        try:
            if not self._was_there:
                self._temporary.mkdir(parents=True, exist_ok=True)
            self._was_there = self._temporary.stat() is not None
        except OSError as error:
            raise OSError(errno.ENODEV, f"it isn't there; is its disk mounted? ({error.strerror})") from error

    def _remove(self, path: Path) -> None:
        """Remove a file, and have that on the disk; also when another call came before us, and no further."""
        with suppress(FileNotFoundError):
            self._found(path.unlink)
        with suppress(FileNotFoundError):
            _sync(path.parent)

    def _new_file(self) -> Path:
        self._require()
        aside = self._temporary / uuid.uuid4().hex
        aside.touch(exist_ok=False)
        return aside

    def _place(self, target: Path, fill: Callable[[Path], object]) -> None:
        with self._errors():
            aside = self._new_file()
            try:
                fill(aside)
                _sync(aside)
                self._rename(aside, target)
            finally:
                _discard(aside)

    def _rename(self, aside: Path, target: Path) -> None:
        inside = (p for p in target.parents if p != self._root and p.is_relative_to(self._root))
        missing = [p for p in inside if not p.exists()]
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)  # never the root: a disk that is unmounted just now is written beside
        aside.replace(target)
        for folder in {target.parent, *(p.parent for p in missing)}:
            _sync(folder)

    def _walk(self, folder: Path) -> Sequence[str]:
        self._require()
        files = (p for p in folder.rglob("*") if p.is_file())
        keys = (p.relative_to(self._root) for p in files)
        return sorted(k.as_posix() for k in keys if k.parts[0] != TEMPORARY_FOLDER)

    def _sweep(self, before: float) -> int:
        if not self._temporary.is_dir():
            return 0
        old = [p for p in self._temporary.iterdir() if p.stat().st_mtime < before]
        for path in old:
            path.unlink(missing_ok=True)
        return len(old)


def _write_all(file: FileIO, chunk: bytes) -> int:
    """Write the whole chunk to an unbuffered file, which may take less at a time; return its size."""
    rest = memoryview(chunk)
    while rest:
        rest = rest[file.write(rest) :]
    return len(chunk)


def _discard(aside: Path) -> None:
    """Remove what was written aside, if it is still there; the sweep takes what can't be removed now."""
    with suppress(OSError):
        aside.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Have a file's bytes or a folder's names on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _storage_errors(key: str | None = None) -> Iterator[None]:
    """Turn the system's errors into the store's; with `key`, a missing file is a missing object."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        if key is not None:
            raise ObjectMissing(key) from error
        raise StoreUnavailable(f"the object folder failed: {error.strerror}") from error
    except OSError as error:
        raise StoreUnavailable(f"the object folder failed: {error.strerror}") from error
