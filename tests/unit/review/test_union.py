"""The union as algebra."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.review.union import Shown, Sibling, union_of

drafts = st.lists(st.lists(st.integers(0, 9), unique=True, max_size=5), min_size=1, max_size=5)


def siblings(images: list[list[int]], cover: int | None = None) -> tuple[list[Sibling], list[Shown]]:
    """Return siblings 0, 1, … with their images."""
    heads = [Sibling(i, f"title {i}", cover if i == 0 else None, "") for i in range(len(images))]
    return heads, [Shown(media, f"{i}:{media}", i) for i, ids in enumerate(images) for media in ids]


@given(drafts)
def test_each_object_is_kept_once_at_its_first_place(images: list[list[int]]) -> None:
    union = union_of(*siblings(images))
    assert union is not None
    flat = [media for ids in images for media in ids]
    assert [shown.media_id for shown in union.images] == list(dict.fromkeys(flat))
    for shown in union.images:
        assert shown.draft_id == min(i for i, ids in enumerate(images) if shown.media_id in ids)


@given(drafts, st.integers(0, 9))
def test_title_and_cover_are_the_first_siblings(images: list[list[int]], cover: int) -> None:
    union = union_of(*siblings(images, cover))
    assert union is not None
    flat = [media for ids in images for media in ids]
    assert union.title == "title 0"
    assert union.cover_media_id == (cover if cover in flat else next(iter(flat), None))


@given(drafts)
def test_a_sibling_without_new_images_changes_nothing(images: list[list[int]]) -> None:
    before = union_of(*siblings(images))
    assert union_of(*siblings([*images, images[0]])) == before
    assert union_of(*siblings([*images, []])) == before


def test_without_siblings_there_is_nothing_to_show() -> None:
    assert union_of([], []) is None
