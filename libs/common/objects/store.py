"""The interface of an object store, its errors and the shape of a key."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from libs.common.tally import Tally

MAX_KEY_BYTES = 900
TEMPORARY_FOLDER = ".tmp"
ABANDONED_SECONDS = 24 * 3600.0


class ObjectStoreError(Exception):
    """Something about an object or its store; never raised itself."""


class ObjectMissing(ObjectStoreError):
    """No object has this key."""

    def __init__(self, key: str) -> None:
        super().__init__(f"no object {key!r} in the store")
        self.key = key


class StoreUnavailable(ObjectStoreError):
    """The store can't be reached, refuses us, or has no room: trouble of ours, never of the content."""


class InvalidKey(ObjectStoreError):
    """The key isn't a plain relative path."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a store knows about an object: its size in bytes."""

    size: int


class ObjectStore(Protocol):
    """A store of immutable objects; a put is seen whole or not at all.

    Every method raises `InvalidKey` for a bad key and `StoreUnavailable` when the store is in trouble.
    """

    async def put_bytes(self, key: str, data: bytes) -> None:
        """Store `data` under `key`, replacing what was there; durable when it returns."""
        ...

    async def put_file(self, key: str, path: Path) -> None:
        """Store a copy of the file at `path` under `key`; durable when it returns."""
        ...

    async def move_file(self, key: str, path: Path) -> None:
        """Store the file at `path` under `key`; durable when it returns, and the file is gone from `path`.

        When it raises, the file may be gone, too.
        """
        ...

    async def put_stream(self, key: str, chunks: AsyncIterator[bytes]) -> int:
        """Store what `chunks` yields and return its size in bytes; nothing is seen when `chunks` raises."""
        ...

    async def get_bytes(self, key: str) -> bytes:
        """Return the object's bytes. Raises ObjectMissing."""
        ...

    def stream(self, key: str, *, start: int = 0, chunk_bytes: int = 1 << 18) -> AsyncIterator[bytes]:
        """Yield the object from byte `start` in pieces of at most `chunk_bytes`. Raises ObjectMissing."""
        ...

    async def head(self, key: str) -> ObjectInfo | None:
        """Return what is known about the object, or None when there is none."""
        ...

    async def delete(self, key: str) -> None:
        """Remove the object; a missing one is fine. It stays away whatever happens once this returns."""
        ...

    def list(self, prefix: str = "") -> AsyncIterator[str]:
        """Yield the keys below the folder `prefix` (whole path segments) in no promised order."""
        ...

    def local_path(self, key: str) -> AbstractAsyncContextManager[Path]:
        """Lend the object as a file to read: itself on a local store, a temporary copy on a remote one."""
        ...

    async def check(self) -> None:
        """Return if the store answers. Raises StoreUnavailable."""
        ...

    async def sweep_abandoned(self, older_than_seconds: float = ABANDONED_SECONDS) -> int:
        """Remove what killed writers left half written, and return how many that were."""
        ...


class CountedErrors:
    """Turns errors into the store's, and counts the operations that found it unavailable.

    `kind` is that of the store (`local`, `s3`); `translated`, given an object's key or None, is the block in
    which its errors become those of `ObjectStore`.
    """

    def __init__(self, kind: str, translated: Callable[[str | None], AbstractContextManager[None]]) -> None:
        self._kind = kind
        self._translated = translated
        self._tally = Tally.of(
            None, "store.errors", ("store",),
            unit="{operation}", description="operations on the object store that failed",
        )  # fmt: skip
        self._tally.add(kind, count=0)  # seen before the first one: a rise from nothing is no rise

    @contextmanager
    def __call__(self, key: str | None = None) -> Iterator[None]:
        """Surround one operation."""
        try:
            with self._translated(key):
                yield
        except StoreUnavailable:
            self._tally.add(self._kind)
            raise


def checked_key(key: str) -> str:
    """Return `key` if it is a relative path of plain segments.

    Raises:
        InvalidKey: it is empty, too long, absolute, or has an empty, `.`, `..` or control-character segment.
    """
    segments = key.split("/")
    plain = all(s and s not in {".", ".."} and s.isprintable() and "\\" not in s for s in segments)
    fits = len(key.encode("utf-8", "surrogatepass")) <= MAX_KEY_BYTES
    if not plain or not fits or segments[0] == TEMPORARY_FOLDER:
        raise InvalidKey(f"{key[:80]!r} is no object key: a relative path of plain segments is needed")
    return key
