"""The union that an official row is: a pure function of its approved drafts (domain.md 4.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Sibling:
    """An approved draft of a key. `cover_media_id` is the editor's choice, None for "the first image"."""

    draft_id: int
    title: str
    cover_media_id: int | None
    collection: str


@dataclass(frozen=True)
class Shown:
    """An image of an official row, and the draft that it came from."""

    media_id: int
    caption: str
    draft_id: int


@dataclass(frozen=True)
class Union:
    """What an official row shows. Title, collection and cover are the first sibling's by draft id."""

    title: str
    collection: str
    cover_media_id: int | None
    images: tuple[Shown, ...]


def union_of(siblings: Sequence[Sibling], images: Iterable[Shown]) -> Union | None:
    """Return the union, None without siblings.

    `siblings` are ordered by draft id, `images` are those that aren't hidden by draft id and position. Each
    object is kept once, at its first place. A chosen cover that is hidden gives way to the first image.
    """
    if not siblings:
        return None
    first = siblings[0]
    kept: dict[int, Shown] = {}
    for image in images:
        kept.setdefault(image.media_id, image)
    shown = tuple(kept.values())
    cover = first.cover_media_id if first.cover_media_id in kept else next(iter(kept), None)
    return Union(first.title, first.collection, cover, shown)
