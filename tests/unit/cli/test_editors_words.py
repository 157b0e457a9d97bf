"""What the commands of editors say, and the edits that they make of their arguments."""

import click
import pytest
from frontrow.review.v1 import draft_pb2, key_pb2, key_service_pb2

from cli.commands.drafts import draft_words, drafts, history_row
from cli.commands.drafts_images import covered, hidden, reordered
from cli.commands.drafts_state import purge_words
from cli.commands.drafts_words import edit_of
from cli.commands.keys import name_row, report_words


def draft() -> draft_pb2.Draft:
    images = [draft_pb2.DraftImage(image_id=str(i), media_key=f"media/{i}", hidden=i == 3) for i in (1, 2, 3)]
    return draft_pb2.Draft(
        title="Day one",
        subtitle="Oslo · 2026-02",
        source="vogue",
        source_url="https://a.test/1",
        images=images,
    )


def test_an_edit_names_in_its_mask_exactly_the_fields_that_were_given() -> None:
    edit = edit_of("street", {"title": None, "city": "Oslo", "year": None, "month": 0, "brand": None})
    assert edit is not None
    assert list(edit.update_mask.paths) == ["street_snap.city", "street_snap.month"]
    assert (edit.draft.street_snap.city, edit.draft.street_snap.month) == ("Oslo", 0)
    emptied = edit_of("runway", {"collection": "", "title": "x"})
    assert emptied is not None
    assert list(emptied.update_mask.paths) == ["runway.collection", "title"]
    assert edit_of("runway", {"title": None, "city": None}) is None


def test_a_field_of_the_other_kind_is_refused_by_its_option() -> None:
    with pytest.raises(click.UsageError, match="--brand, --season: no field of a street draft"):
        edit_of("street", {"brand": "Prada", "season": "FW26", "title": "x"})


def test_images_are_edited_as_a_whole_whatever_is_named_of_them() -> None:
    edit = hidden(draft(), ["1"], True)
    assert [(image.image_id, image.hidden) for image in edit.draft.images] == [
        ("1", True),
        ("2", False),
        ("3", True),
    ]
    assert [image.hidden for image in hidden(draft(), ["3"], False).draft.images] == [False] * 3
    assert [image.image_id for image in reordered(draft(), ["3", "2"]).draft.images] == ["3", "2", "1"]
    assert list(edit.update_mask.paths) == ["images"]
    assert covered(draft(), "2").draft.cover_key == "media/2"
    assert covered(draft(), None).draft.cover_key == ""
    told = "9: no image of the draft, which has 1, 2, 3"
    with pytest.raises(click.UsageError, match=told):
        hidden(draft(), ["9"], True)
    with pytest.raises(click.UsageError, match=told):
        covered(draft(), "9")


def test_a_kind_alone_lists_and_with_an_id_shows() -> None:
    context = click.Context(drafts)
    assert drafts.resolve_command(context, ["street", "--status", "pending"])[0] == "list"
    assert drafts.resolve_command(context, ["street", "7", "--json"])[0] == "show"
    assert drafts.resolve_command(context, ["edit", "street", "7"])[0] == "edit"
    with pytest.raises(click.UsageError, match="strete"):
        drafts.resolve_command(context, ["strete"])


def test_a_card_says_where_the_draft_stands_and_a_purge_what_goes() -> None:
    card = draft()
    card.status = draft_pb2.DRAFT_STATUS_REJECTED
    card.decided_by, card.reject_reason = "Anna", "blurred"
    assert draft_words(card).splitlines() == [
        "Day one",
        "  Oslo · 2026-02",
        "  rejected by Anna",
        "  reason: blurred",
        "  vogue https://a.test/1",
    ]
    assert "3 images" in purge_words(card, purged=False)
    assert "--apply" in purge_words(card, purged=False)
    assert purge_words(card, purged=True).endswith("vogue https://a.test/1 may come in again")


def test_an_entry_of_the_history_tells_before_and_after() -> None:
    event = draft_pb2.DraftEvent(action=draft_pb2.DRAFT_ACTION_EDITED, actor="", reason="r")
    event.changes.add(field="title", before="", after="New")
    event.changes.add(field="street_snap.month", before="2", after="8")
    assert history_row(event)[1:] == ("–", "edited", "title: – → New\nstreet_snap.month: 2 → 8", "r")


def test_names_that_nobody_looked_at_are_flagged_and_a_report_is_told_in_words() -> None:
    city = key_pb2.City(city_id="131", name="Kopenhagn", canonical_id="5")
    assert name_row(city) == ("131", "Kopenhagn (as a draft wrote it)", "", "5")
    season = key_pb2.Season(season_code="FW26", name="Fall 2026", known=True)
    season.aliases.add(alias="Herbst Couture", line="Couture")
    assert name_row(season)[2] == "Herbst Couture (Couture)"
    report = key_service_pb2.MergeReport(draft_count=1, shown_draft_count=1, gaining_official_count=2)
    assert report_words(report).splitlines() == [
        "Drafts concerned: 1, of them published: 1.",
        "Official pages that gain images: 2; that lose their last ones and are hidden: 0.",
    ]
