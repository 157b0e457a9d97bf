"""What the beginnings of uploads hash to, kept by the server that took them: no part is read for it."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

# One a running or broken upload; some hundred bytes each.
_MOST = 512


@dataclass(frozen=True, slots=True)
class Prefix:
    """The beginning of an upload, up to the end of a part.

    `keys` are its parts' objects in order. Each is stored once, under a key with a random end, so that they
    name exactly these bytes, whatever other calls and other servers did to the upload meanwhile. The last key
    alone does not: an upload that starts over at another server can reach the same size with other bytes, and
    a call that went on before gets its part in behind them. `digest` has hashed these bytes and is never
    updated in place; None where they came to another server.
    """

    keys: tuple[str, ...]
    size_bytes: int
    digest: hashlib._Hash | None

    @property
    def name(self) -> str:
        """A short name of these bytes, 40 hex digits; it is made of the keys."""
        return hashlib.sha1("\n".join(self.keys).encode(), usedforsecurity=False).hexdigest()

    @property
    def sha1(self) -> str:
        """The SHA-1 of these bytes, 40 hex digits; '' where it isn't known."""
        return "" if self.digest is None else self.digest.hexdigest()

    def followed_by(self, key: str, data: bytes) -> Prefix:
        """Return the prefix that is longer by a part of `data`; hashing it takes a millisecond a megabyte."""
        digest = None if self.digest is None else self.digest.copy()
        if digest is not None:
            digest.update(data)
        return Prefix((*self.keys, key), self.size_bytes + len(data), digest)


class Prefixes:
    """The digests of what is committed of uploads, of the parts that came to this process."""

    def __init__(self, most: int = _MOST) -> None:
        """`most` digests are kept; beyond that those go that nobody asked for or lengthened for longest."""
        self._most = most
        self._digests: OrderedDict[str, hashlib._Hash] = OrderedDict()

    def find(self, keys: Sequence[str], size_bytes: int) -> Prefix:
        """Return the prefix that these parts make, with its digest if it is known here."""
        prefix = Prefix(tuple(keys), size_bytes, None if keys else hashlib.sha1(usedforsecurity=False))
        digest = self._digests.get(prefix.name)
        if digest is None:
            return prefix
        self._digests.move_to_end(prefix.name)
        return Prefix(prefix.keys, size_bytes, digest)

    def lengthened(self, before: Prefix, now: Prefix) -> None:
        """Keep what is committed `now`, in place of what was `before`."""
        self._digests.pop(before.name, None)
        if now.digest is not None:
            self._digests[now.name] = now.digest
        if len(self._digests) > self._most:
            self._digests.popitem(last=False)
