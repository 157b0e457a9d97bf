"""The rules as pure functions of a picture: what official rows show, what is referred to, what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256

from tests.soak.review.picture import Draft, Image, Key, Media, Picture


def siblings(picture: Picture) -> dict[Key, list[Draft]]:
    """Return the shown drafts of each key, by id."""
    found: dict[Key, list[Draft]] = {}
    for draft in sorted(picture.drafts.values(), key=lambda draft: draft.id):
        if draft.shown:
            key = picture.key_of(draft)
            assert key is not None, f"{draft} is approved without a key"
            found.setdefault(key, []).append(draft)
    return found


def union(drafts: list[Draft]) -> tuple[tuple[int, str, int], ...]:
    """Return (media id, caption, draft id) of each object at its first place (domain.md 4.3)."""
    kept: dict[int, tuple[int, str, int]] = {}
    for draft in drafts:
        for image in draft.images:
            if not image.hidden:
                kept.setdefault(image.media_id, (image.media_id, image.caption, draft.id))
    return tuple(kept.values())


def cover_of(first: Draft, images: tuple[tuple[int, str, int], ...]) -> int | None:
    """Return the cover of the first draft's own card; where it shows nothing, the row's first image."""
    own = shown_cover(first.images, first.cover)
    return own if own is not None else next((media_id for media_id, _, _ in images), None)


def shown_cover(images: tuple[Image, ...], chosen: int | None) -> int | None:
    """Return the cover of a draft's card."""
    visible = [image.media_id for image in images if not image.hidden]
    return chosen if chosen in visible else next(iter(visible), None)


def referenced(picture: Picture) -> set[int]:
    """Return the media ids that a draft, deleted or not, or an official row refers to."""
    drafts = {image.media_id for draft in picture.drafts.values() for image in draft.images}
    covers = {draft.cover for draft in picture.drafts.values()}
    covers |= {official.cover for official in picture.officials.values()}
    officials = {image[0] for official in picture.officials.values() for image in official.images}
    return drafts | officials | {cover for cover in covers if cover is not None}


def public(picture: Picture) -> set[int]:
    """Return the media ids that a visible official row shows."""
    visible = (official for official in picture.officials.values() if not official.hidden)
    return {image[0] for official in visible for image in official.images}


def idle(picture: Picture, row: Media, grace_hours: int) -> bool:
    """Tell whether a clean-up may mark the row (domain.md 4.9)."""
    old = row.touched >= grace_hours
    return not row.parent_key and row.state != "deleting" and old and row.id not in referenced(picture)


def due(picture: Picture, row: Media, grace_hours: int) -> bool:
    """Tell whether a clean-up may delete the row: marked a grace ago and idle all the same."""
    return row.marked is not None and row.marked >= grace_hours and idle(picture, row, grace_hours)


def faults(picture: Picture, objects: Mapping[str, bytes]) -> Iterator[str]:
    """Yield what breaks a rule; `objects` are the stored bytes by key."""
    yield from _wrong_rows(picture)
    yield from _foreign_images(picture)
    yield from _wrong_media(picture, objects)
    for name, pointers in picture.pointers.items():
        for identity in pointers:
            if picture.roots[name][identity] != picture.root(name, identity):
                yield f"{name} {identity} ends at {picture.roots[name][identity]}"
    for draft in picture.drafts.values():
        if picture.last_revisions.get((draft.kind, draft.id)) != draft.revision:
            yield f"the history of {draft} ends elsewhere"


def _wrong_rows(picture: Picture) -> Iterator[str]:
    expected = siblings(picture)
    for key in expected.keys() - picture.officials.keys():
        yield f"no official row for {key}"
    for key, official in picture.officials.items():
        drafts = expected.get(key, [])
        images = union(drafts)
        told = (official.images, official.image_count, official.hidden)
        if told != (images, len(images), not drafts):
            yield f"{key} shows {told}, should show {images} of {drafts}"
        if official.cover != (cover_of(drafts[0], images) if drafts else None):
            yield f"{key} has the cover {official.cover}"
        if drafts and official.title != drafts[0].title:
            yield f"{key} is called {official.title!r}"


def _foreign_images(picture: Picture) -> Iterator[str]:
    """Look at each image alone: it is of an approved draft of this very key and month."""
    for key, official in picture.officials.items():
        for media_id, _, draft_id in official.images:
            draft = picture.drafts.get((str(key[0]), draft_id))
            if draft is None or not draft.shown or media_id not in draft.visible:
                yield f"{key} shows image {media_id} that draft {draft_id} doesn't"
            elif picture.key_of(draft) != key:
                yield f"{key} shows image {media_id} of {picture.key_of(draft)}"


def _wrong_media(picture: Picture, objects: Mapping[str, bytes]) -> Iterator[str]:
    by_id = picture.media_by_id()
    for media_id in referenced(picture):
        if by_id[media_id].state != "live":
            yield f"{by_id[media_id]} is referred to"
    for row in picture.media.values():
        if row.state == "live":
            stored = objects.get(row.key)
            if stored is None or sha256(stored).hexdigest() != row.sha256:
                yield f"{row} has no such bytes"
        if row.parent_key and row.parent_key not in picture.media:
            yield f"{row} outlived its original"
