"""Keys, places, states and edits without a database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.common.errors import DomainError, InvalidArgument
from services.review import edits
from services.review.drafts import Draft, DraftImage, locks_of, require, require_key, revision_of
from services.review.edits import Edit, ImageEdit
from services.review.errors import KeyIncomplete
from services.review.keys import RunwayKey, SourceKey, StreetKey
from services.review.places import RunwayPlace, RunwayTexts, StreetPlace, StreetTexts
from services.review.states import Action, Status

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def place(city_id: int | None = 7, year: int = 2026, month: int = 2) -> StreetPlace:
    """Return a street place."""
    name = "Copenhagen" if city_id else ""
    return StreetPlace(StreetTexts(name, year, month), city_id, city_id, name)


def draft(**values: object) -> Draft:
    """Return a pending street draft."""
    usual: dict[str, Any] = {
        **{"id": 12, "kind": "street_snap", "job_id": "j", "source": "", "source_url": "", "title": "t"},
        **{"place": place(), "revision": 3, "status": Status.PENDING, "is_deleted": False},
        **{"cover_media_id": None, "cover_key": "", "image_count": 1, "reject_reason": "", "decided_by": ""},
        **{"decided_at": None, "created_at": NOW, "updated_at": NOW, "deleted_at": None},
    }
    return Draft(**{**usual, **values})


def image(row: int, *, hidden: bool = False) -> DraftImage:
    """Return an image of a draft."""
    return DraftImage(row, 100 + row, f"key{row}", row, "", "", hidden, "image/jpeg", 1, 1, 1)


@pytest.mark.parametrize(
    ("source", "url", "expected"),
    [
        (" Vogue ", " https://A.test/X?b=1&a=2#top ", ("vogue", "https://A.test/X?b=1&a=2")),
        ("vogue", "https://a.test/x #", ("vogue", "https://a.test/x")),
        ("", "#only", ("", "")),
        ("VOGUE", "https://a.test//x/?q", ("vogue", "https://a.test//x/?q")),
    ],
)
def test_a_source_key_is_trimmed_and_freed_of_its_fragment_and_otherwise_exact(
    source: str, url: str, expected: tuple[str, str]
) -> None:
    key = SourceKey.of(source, url)
    assert (key.source, key.source_url) == expected
    assert SourceKey.of(*expected) == key


def test_over_long_source_keys_are_refused_and_never_cut() -> None:
    assert SourceKey.of("s" * 32, "u" * 512).source_url == "u" * 512
    assert SourceKey.of(f" {'s' * 32} ", "u" * 512 + "#" + "f" * 100).source == "s" * 32
    with pytest.raises(InvalidArgument) as refused:
        SourceKey.of("s" * 33, "u" * 513)
    assert [violation.field for violation in refused.value.violations] == ["source", "source_url"]


def test_the_month_is_part_of_the_street_key_and_of_its_lock() -> None:
    february, august = StreetKey(7, 2026, 2), StreetKey(7, 2026, 8)
    assert february.lock_id != august.lock_id
    assert february.columns()["month"] == 2
    assert -(2**63) <= february.lock_id < 2**63
    assert RunwayKey(7, "2026", "2").lock_id != february.lock_id


def test_year_zero_or_an_empty_name_is_no_key() -> None:
    assert place(year=0).key is None
    assert place(city_id=None).key is None
    assert place(month=0).key == StreetKey(7, 2026, 0)
    texts = RunwayTexts("", "", "")
    runway = RunwayPlace(texts, None, None, "", "FW26", "FW26", True, "")
    assert (runway.key, runway.missing) == (None, ["runway.brand"])
    with pytest.raises(KeyIncomplete) as refused:
        require_key(1, place(city_id=None, year=0))
    assert refused.value.metadata == {"missing": "street_snap.city, street_snap.year"}


def test_a_card_shows_as_much_of_the_date_as_is_known() -> None:
    subtitles = [place(year=2026, month=2), place(month=0), place(year=0), place(city_id=None, year=0)]
    assert [p.subtitle for p in subtitles] == ["Copenhagen · 2026-02", "Copenhagen · 2026", "Copenhagen", ""]


def test_a_merged_name_is_promoted_under_its_canonical_one_and_both_are_locked() -> None:
    merged = StreetPlace(StreetTexts("Kopenhagen", 2026, 2), 9, 7, "Copenhagen")
    assert merged.key == place().key
    assert locks_of([merged]).keys == locks_of([place()]).keys
    assert locks_of([merged]).names > locks_of([place()]).names
    assert locks_of([merged, place(month=8)]).covers(locks_of([place()]))
    assert not locks_of([place()]).covers(locks_of([merged]))


def test_an_etag_fits_its_own_draft_only() -> None:
    one = draft()
    assert revision_of(one.etag, one) == 3
    assert revision_of(draft(id=13).etag, one) is None
    assert revision_of(draft(kind="runway").etag, one) is None
    assert revision_of(f"{one.etag}{'9' * 40}", one) is None
    for junk in ("", "s12-", "s12--3", "s12-x", "s12-٣"):
        assert revision_of(junk, one) is None


ALLOWED = {
    (Status.PENDING, False): {Action.EDITED, Action.APPROVED, Action.REJECTED, Action.DELETED, Action.PURGED},
    (Status.APPROVED, False): {Action.EDITED, Action.REOPENED, Action.DELETED, Action.PURGED},
    (Status.REJECTED, False): {Action.REOPENED, Action.DELETED, Action.PURGED},
    (Status.PENDING, True): {Action.UNDELETED, Action.PURGED},
    (Status.APPROVED, True): {Action.UNDELETED, Action.PURGED},
    (Status.REJECTED, True): {Action.UNDELETED, Action.PURGED},
}


@pytest.mark.parametrize(("state", "allowed"), ALLOWED.items())
def test_each_state_allows_exactly_its_actions(state: tuple[Status, bool], allowed: set[Action]) -> None:
    one = draft(status=state[0], is_deleted=state[1])
    for action in set(Action) - {Action.CREATED}:
        if action in allowed:
            require(one, action)
        else:
            with pytest.raises(DomainError):
                require(one, action)


def test_only_approved_drafts_that_are_not_deleted_count() -> None:
    assert draft(status=Status.APPROVED).counted_key == place().key
    assert draft(status=Status.APPROVED, is_deleted=True).counted_key is None
    assert draft().counted_key is None


def test_wanting_the_cover_that_shows_anyway_keeps_the_choice() -> None:
    images = [image(1), image(2), image(3, hidden=True)]
    assert edits.cover_id(images, None, "key1") is None
    assert edits.cover_id(images, 102, "key2") == 102
    assert edits.cover_id(images, 103, "key1") == 103  # the hidden choice shows the first
    assert edits.cover_id(images, None, "key2") == 102
    assert edits.cover_id(images, 102, "") is None
    for key in ("key3", "unknown"):
        with pytest.raises(InvalidArgument):
            edits.cover_id(images, None, key)


@given(st.permutations(range(1, 6)), st.lists(st.booleans(), min_size=5, max_size=5))
def test_an_edit_of_images_is_a_permutation_with_marks(order: list[int], hidden: list[bool]) -> None:
    images = [image(row) for row in range(1, 6)]
    wanted = [ImageEdit(row, mark, "") for row, mark in zip(order, hidden, strict=True)]
    arranged = edits.edited_images(images, wanted)
    assert [(i.id, i.position, i.hidden) for i in arranged] == [
        (row, position, mark) for position, (row, mark) in enumerate(zip(order, hidden, strict=True))
    ]


def test_an_edit_touches_the_named_texts_only() -> None:
    edit = Edit(texts=(("street_snap.month", 8),))
    assert edits.edited_texts(StreetTexts("Paris", 2026, 2), edit) == StreetTexts("Paris", 2026, 8)
    edit = Edit(texts=(("runway.season", "FW26"), ("runway.collection", "")))
    assert edits.edited_texts(RunwayTexts("Dior", "", "x"), edit) == RunwayTexts("Dior", "FW26", "")
