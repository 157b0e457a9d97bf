"""What each action makes of a draft, without a database."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.review.changes import Seen, Wanted, decide
from services.review.drafts import card_of
from services.review.edits import Edit, ImageEdit
from services.review.errors import KeyIncomplete
from services.review.keys import StreetKey
from services.review.states import Action, Status
from tests.unit.review.test_rules import NOW, draft, image, place


def seen(**values: object) -> Seen:
    """Return a draft of two images as it was read."""
    return Seen(draft(**{"image_count": 2, "cover_key": "key1", **values}), [image(1), image(2)])


def test_an_approval_with_an_edit_is_two_revisions_and_two_entries_of_the_history() -> None:
    wanted = Wanted(Action.APPROVED, "Anna", edit=Edit(title="New", texts=(("street_snap.month", 3),)))
    plan = decide(seen(), place(month=3), wanted)
    assert plan.after is not None
    after = plan.after.draft
    assert (after.status, after.decided_by, after.title, after.revision) == (
        Status.APPROVED,
        "Anna",
        "New",
        5,
    )
    assert [entry.action for entry in plan.entries] == [Action.EDITED, Action.APPROVED]
    assert plan.counted_keys == {StreetKey(7, 2026, 3)}
    assert plan.locks.keys == {StreetKey(7, 2026, 2).lock_id, StreetKey(7, 2026, 3).lock_id}


def test_an_edit_of_an_approved_draft_concerns_the_key_that_it_leaves_and_the_one_that_it_comes_to() -> None:
    wanted = Wanted(Action.EDITED, "Anna", edit=Edit(texts=(("street_snap.month", 3),)))
    plan = decide(seen(status=Status.APPROVED), place(month=3), wanted)
    assert plan.counted_keys == {StreetKey(7, 2026, 2), StreetKey(7, 2026, 3)}


def test_an_edit_that_changes_nothing_leaves_the_draft_as_it_is() -> None:
    before = seen()
    plan = decide(before, None, Wanted(Action.EDITED, "Anna", edit=Edit(title="t")))
    assert (plan.after, plan.entries) == (before, ())


def test_hiding_the_cover_shows_the_next_image_on_the_card() -> None:
    images = (ImageEdit(1, hidden=True, caption=""), ImageEdit(2, hidden=False, caption=""))
    plan = decide(seen(), None, Wanted(Action.EDITED, "Anna", edit=Edit(images=images)))
    assert plan.after is not None
    assert (plan.after.draft.image_count, plan.after.draft.cover_key) == (1, "key2")


def test_a_card_shows_the_chosen_cover_unless_it_is_hidden() -> None:
    images = [image(1), image(2), image(3, hidden=True)]
    assert card_of(images, 102) == (2, "key2")
    assert card_of(images, 103) == (2, "key1")
    assert card_of([], None) == (0, "")


def test_reopening_takes_the_decision_back_and_a_deletion_leaves_it() -> None:
    decided = seen(status=Status.REJECTED, decided_by="Ben", decided_at=NOW, reject_reason="blurred")
    reopened = decide(decided, None, Wanted(Action.REOPENED, "Anna")).after
    deleted = decide(decided, None, Wanted(Action.DELETED, "Anna")).after
    assert reopened is not None
    assert deleted is not None
    assert reopened.draft == draft(image_count=2, cover_key="key1", revision=4)
    assert deleted.draft == replace(decided.draft, is_deleted=True, revision=4)


def test_a_purge_leaves_its_key_and_tells_which_article_it_was() -> None:
    plan = decide(seen(status=Status.APPROVED, source="vogue"), None, Wanted(Action.PURGED, "Anna"))
    assert plan.after is None
    assert plan.counted_keys == {StreetKey(7, 2026, 2)}
    assert ("source", "vogue", "") in plan.entries[0].changes


def test_a_draft_without_a_key_is_not_approved() -> None:
    with pytest.raises(KeyIncomplete):
        decide(seen(place=place(year=0)), None, Wanted(Action.APPROVED, "Anna"))
