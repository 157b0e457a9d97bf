"""What an edit changes: the pure part of UpdateDraft (domain.md 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from libs.common.errors import FieldViolation, InvalidArgument
from services.review.drafts import Change, Draft, DraftImage, card_of
from services.review.places import Place, RunwayTexts, StreetTexts, Texts

RUNWAY_PATHS = ("runway.brand", "runway.season", "runway.collection")
STREET_PATHS = ("street_snap.city", "street_snap.year", "street_snap.month")
COMMON_PATHS = ("title", "cover_key", "images")


@dataclass(frozen=True)
class ImageEdit:
    """The wanted state of one image; its place in the list is its position."""

    image_id: int
    hidden: bool
    caption: str


@dataclass(frozen=True)
class Edit:
    """The fields of an edit; None leaves a field as it is."""

    title: str | None = None
    cover_key: str | None = None
    images: tuple[ImageEdit, ...] | None = None
    texts: tuple[tuple[str, str | int], ...] = ()


def edited_texts(texts: Texts, edit: Edit) -> Texts:
    """Return the key texts after the edit."""
    fields = {path.partition(".")[2]: value for path, value in edit.texts}
    if isinstance(texts, RunwayTexts):
        return replace(texts, **{name: str(value) for name, value in fields.items()})
    year, month = int(fields.get("year", texts.year)), int(fields.get("month", texts.month))
    return StreetTexts(str(fields.get("city", texts.city)), year, month)


def edited_images(images: Sequence[DraftImage], wanted: Sequence[ImageEdit]) -> list[DraftImage]:
    """Return the images in the wanted order.

    Raises:
        InvalidArgument: the list isn't made of exactly the draft's images.
    """
    by_id = {image.id: image for image in images}
    if len(wanted) != len(images) or {edit.image_id for edit in wanted} != set(by_id):
        raise InvalidArgument.of_field(
            "edit.draft.images",
            f"must hold each of the draft's {len(images)} images once; hide what isn't wanted",
        )
    return [
        by_id[edit.image_id]._replace(position=position, hidden=edit.hidden, caption=edit.caption)
        for position, edit in enumerate(wanted)
    ]


def cover_id(images: Sequence[DraftImage], chosen: int | None, cover_key: str) -> int | None:
    """Return the media id to choose so that the cover is the wanted one; None is "the first that shows".

    `images` are those after the edit, `chosen` the choice before it. Wanting the cover that shows anyway
    keeps the choice as it is, so that saving a whole form changes nothing.

    Raises:
        InvalidArgument: no image of the draft has the key, or it is hidden.
    """
    if not cover_key:
        return None
    visible = {image.media_key: image.media_id for image in images if not image.hidden}
    if cover_key not in visible:
        told = "must be the media_key of an image that isn't hidden"
        raise InvalidArgument.of_field("edit.draft.cover_key", told)
    shown = chosen if chosen in visible.values() else next(iter(visible.values()))
    return chosen if visible[cover_key] == shown else visible[cover_key]


def check_paths(paths: Sequence[str], kind_paths: Sequence[str]) -> None:
    """Refuse an empty mask and unknown paths; `source`, `status` and the like are never editable.

    Raises:
        InvalidArgument: naming each path.
    """
    allowed = (*COMMON_PATHS, *kind_paths)
    wrong = [path for path in paths if path not in allowed]
    if wrong or not paths:
        told = [f"{path!r} can't be edited" for path in wrong] or ["names no field"]
        described = f"{'; '.join(told)}; allowed are {', '.join(allowed)}"
        raise InvalidArgument(
            f"edit.update_mask: {described}", violations=[FieldViolation("edit.update_mask", described)]
        )


def changes_of_place(before: Place, after: Place) -> list[Change]:
    """Return the key texts that differ, as paths of the update mask; `key` when only their meaning does."""
    prefix = "runway" if isinstance(before.texts, RunwayTexts) else "street_snap"
    old, new = vars(before.texts), vars(after.texts)
    changes = [
        Change(f"{prefix}.{name}", str(old[name]), str(new[name])) for name in old if old[name] != new[name]
    ]
    return changes or [Change(prefix, before.subtitle, after.subtitle)]


def changes_of_images(before: Sequence[DraftImage], after: Sequence[DraftImage]) -> list[Change]:
    """Return the change of order and hiding, and of captions, as the history tells it."""
    changes = []
    if _listed(before) != _listed(after):
        changes.append(Change("images", _listed(before), _listed(after)))
    old = {image.id: image.caption for image in before}
    recaptioned = [image.id for image in after if image.caption != old[image.id]]
    if recaptioned:
        changes.append(Change("images.caption", "", " ".join(map(str, sorted(recaptioned)))))
    return changes


def changes_of_purge(draft: Draft) -> list[Change]:
    """Return what a purge takes away: the history outlives the draft and must tell which article it was."""
    gone = {
        "title": draft.title,
        "source": draft.source,
        "source_url": draft.source_url,
        "status": draft.status.value,
        "job_id": draft.job_id,
    }
    return [Change(field, text, "") for field, text in gone.items() if text]


def _listed(images: Sequence[DraftImage]) -> str:
    return " ".join(f"{'-' if image.hidden else ''}{image.id}" for image in images)


def edited(
    draft: Draft, images: Sequence[DraftImage], edit: Edit, target: Place | None
) -> tuple[Draft, Sequence[DraftImage], list[Change]]:
    """Return the draft and its images after the edit, and what differs; nothing of it is a revision yet.

    `target` is where the edit's key texts move the draft to, None when it has none.

    Raises:
        InvalidArgument: the images aren't the draft's, or the cover isn't one of those that show.
    """
    arranged = images if edit.images is None else edited_images(images, edit.images)
    changes, after = _changes_of_fields(draft, edit, arranged)
    if arranged != images:
        changes += changes_of_images(images, arranged)
    if target is not None and target.columns() != draft.place.columns():
        changes += changes_of_place(draft.place, target)
        after = replace(after, place=target)
    count, cover = card_of(arranged, after.cover_media_id)
    return replace(after, image_count=count, cover_key=cover), arranged, changes


def _changes_of_fields(draft: Draft, edit: Edit, images: Sequence[DraftImage]) -> tuple[list[Change], Draft]:
    """Return the changes of title and cover, and the draft with them."""
    changes: list[Change] = []
    if edit.title is not None and edit.title != draft.title:
        changes.append(Change("title", draft.title, edit.title))
        draft = replace(draft, title=edit.title)
    if edit.cover_key is not None:
        chosen = cover_id(images, draft.cover_media_id, edit.cover_key)
        if chosen != draft.cover_media_id:
            changes.append(Change("cover_key", draft.cover_key, edit.cover_key))
            draft = replace(draft, cover_media_id=chosen)
    return changes, draft
