"""What editors do on the command line, against the shared real instance."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from click.testing import CliRunner
from frontrow.review.v1 import key_service_pb2

from cli.main import main
from libs.common.client import connect
from tests.e2e.process import Process
from tests.integration.review.gallery import RUNWAY, Gallery, item_of, unique
from tests.integration.review.test_similar import announced

pytestmark = pytest.mark.timeout(300)  # whole processes

COMMANDS = ["drafts", "approve", "reject", "keys", "catalogue", "media"]
SUBCOMMANDS = [
    *(f"drafts {name}" for name in ("list", "show", "edit", "hide", "unhide", "reorder", "cover")),
    *(f"drafts {name}" for name in ("reopen", "delete", "undelete", "purge")),
    *(f"keys {name}" for name in ("list", "create", "alias", "merge", "unmerge")),
    *(f"catalogue {name}" for name in ("list", "show", "brands")),
    *(f"media {name}" for name in ("similar", "dismiss", "check", "cleanup")),
]


@pytest.fixture
async def gallery(instance: Process) -> AsyncIterator[Gallery]:
    """Speak to the instance's review server as the ingest worker does."""
    async with connect(instance.addresses()["review"]) as channel:
        yield Gallery(channel)


def test_every_command_of_editors_teaches_by_example() -> None:
    runner = CliRunner()
    listed = runner.invoke(main, ["--help"], prog_name="frontrow").output
    for name in [*COMMANDS, *SUBCOMMANDS]:
        text = runner.invoke(main, [*name.split(), "--help"], prog_name="frontrow").output
        assert "Example" in text, name
        assert f"  frontrow {name}" in text, name
    assert all(f"  {name} " in listed for name in COMMANDS)


async def test_a_draft_is_edited_approved_arranged_and_taken_back(
    instance: Process, gallery: Gallery
) -> None:
    draft = await gallery.street("", 0, 0, [unique("cli") for _ in range(3)])
    city = unique("Cliville")

    def act() -> None:
        refused = instance.cli("approve", "street", draft)
        assert refused.returncode == 1
        assert "KEY_INCOMPLETE" in refused.stderr
        assert "frontrow approve KIND DRAFT_ID --city" in refused.stderr
        edited = instance.cli_json(
            "drafts", "edit", "street", draft, "--title", "[Day] one", "--year", "2026"
        )
        assert (edited["title"], edited["street_snap"]["year"]) == ("[Day] one", 2026)
        approved = instance.cli("approve", "street", draft, "--city", city, "--month", "8")
        assert approved.stdout.startswith("approved: [Day] one is in official page ")

        ids = [image["image_id"] for image in instance.cli_json("drafts", "street", draft)["draft"]["images"]]
        instance.cli_json("drafts", "hide", "street", draft, ids[0])
        instance.cli_json("drafts", "reorder", "street", draft, ids[2], ids[1])
        covered = instance.cli_json("drafts", "cover", "street", draft, ids[1])
        assert [image["image_id"] for image in covered["images"]] == [ids[2], ids[1], ids[0]]
        assert [image["hidden"] for image in covered["images"]] == [False, False, True]
        assert covered["cover_key"] == covered["images"][1]["media_key"]
        assert instance.cli_json("drafts", "unhide", "street", draft, ids[0])["image_count"] == 3
        assert instance.cli_json("drafts", "cover", "street", draft)["cover_key"] != covered["cover_key"]
        strange = instance.cli("drafts", "hide", "street", draft, "999999")
        assert strange.returncode == 2
        assert "no image of the draft" in strange.stderr

        shown = instance.cli("drafts", "street", draft).stdout
        for words in (f"{city} · 2026-08", "part of official page", "street_snap.month: 0 → 8", "approved"):
            assert words in shown
        assert draft in [d["draft_id"] for d in instance.cli_json("drafts", "street", "--city", city.upper())]
        assert instance.cli_json("drafts", "reopen", "street", draft)["status"] == "DRAFT_STATUS_PENDING"

    await asyncio.to_thread(act)


async def test_an_old_version_is_refused_with_what_changed_and_what_to_do(
    instance: Process, gallery: Gallery
) -> None:
    draft = await gallery.street(unique("Cliville"), 2026, 2, [unique("cli")])
    etag = (await gallery.get(draft)).etag
    await gallery.edit(draft, title="Quicker", actor="Anna")
    late = await asyncio.to_thread(
        instance.cli, "drafts", "edit", "street", draft, "--month", "3", "--etag", etag
    )
    assert late.returncode == 1
    for words in ("ETAG_MISMATCH", "Anna", "title", "look at the draft again"):
        assert words in late.stderr
    foreign = await asyncio.to_thread(instance.cli, "drafts", "edit", "street", draft, "--brand", "Chanel")
    assert foreign.returncode == 2
    assert "--brand: no field of a street draft" in foreign.stderr
    nothing = await asyncio.to_thread(instance.cli, "drafts", "edit", "street", draft)
    assert nothing.returncode == 2


async def test_a_draft_is_deleted_undeleted_and_purged_after_a_look(
    instance: Process, gallery: Gallery
) -> None:
    url = f"https://site.test/{unique('purged')}"
    draft = await gallery.street(unique("Cliville"), 2026, 2, [unique("cli")], source_url=url)

    def act() -> None:
        assert instance.cli_json("drafts", "delete", "street", draft)["deleted"] is True
        assert "DRAFT_DELETED" in instance.cli("approve", "street", draft).stderr
        assert instance.cli_json("drafts", "undelete", "street", draft)["deleted"] is False
        rejected = instance.cli_json("reject", "street", draft, "--reason", "blurred")
        assert rejected["reject_reason"] == "blurred"
        looked = instance.cli("drafts", "purge", "street", draft, "--reason", "again").stdout
        assert url in looked
        assert "Nothing was written; --apply does it." in looked
        assert instance.cli_json("drafts", "street", draft)["draft"]["status"] == "DRAFT_STATUS_REJECTED"
        gone = instance.cli_json("drafts", "purge", "street", draft, "--reason", "again", "--apply")
        assert gone["purged"] is True
        assert "DRAFT_NOT_FOUND" in instance.cli("drafts", "street", draft).stderr

    await asyncio.to_thread(act)
    assert await gallery.street(unique("Cliville"), 2026, 2, [unique("cli")], source_url=url)


async def test_keys_are_created_spelled_merged_after_a_report_and_taken_apart(
    instance: Process, gallery: Gallery
) -> None:
    right, wrong = unique("Righttown"), unique("Wrongtown")
    drafts = [await gallery.street(city, 2026, 2, [unique("key")]) for city in (right, wrong)]
    for draft in drafts:
        await gallery.approve(draft)
    source, target = [(await gallery.get(draft)).street_snap.city_id for draft in drafts[::-1]]

    def act() -> None:
        report = instance.cli("keys", "merge", "city", source, target).stdout
        assert "Drafts concerned: 1, of them published: 1." in report
        assert "Nothing was written" in report
        assert instance.cli_json("keys", "merge", "city", source, target, "--apply")["applied"] is True
        cities = {city["city_id"]: city for city in instance.cli_json("keys", "list", "city")}
        assert cities[source]["canonical_id"] == target
        assert instance.cli_json("drafts", "street", drafts[1])["draft"]["street_snap"]["city_name"] == right
        again = instance.cli("keys", "merge", "city", source, target)
        assert "KEY_MERGED" in again.stderr
        assert "frontrow keys unmerge" in again.stderr
        assert "undoes it" not in instance.cli("keys", "unmerge", "city", source, "--apply").stdout
        assert instance.cli_json("drafts", "street", drafts[1])["draft"]["street_snap"]["city_name"] == wrong

        brand = instance.cli_json("keys", "create", "brand", unique("House"), "--alias", unique("Casa"))
        spelling = unique("Maison")
        assert spelling in instance.cli("keys", "alias", "brand", brand["brand_id"], spelling).stdout
        taken = instance.cli("brands", "add", spelling)
        assert "KEY_EXISTS" in taken.stderr
        code = unique("HS")
        season = instance.cli_json(
            "keys", "create", "season", "High Summer", "--code", code, "--alias", code * 2
        )
        assert (season["season_code"], season["name"], season["known"]) == (code, "High Summer", True)
        lined = instance.cli_json("keys", "alias", "season", code, f"{code} haute", "--line", "Couture")
        assert {"alias": f"{code} haute", "line": "Couture"} in lined["aliases"]
        assert code in instance.cli("keys", "list", "season").stdout
        assert instance.cli("keys", "create", "city", "X", "--code", "x").returncode == 2

    await asyncio.to_thread(act)


async def test_what_is_published_is_in_the_catalogue_by_kind_and_by_id(
    instance: Process, gallery: Gallery
) -> None:
    house = unique("House")
    await gallery.keys.CreateBrand(key_service_pb2.CreateBrandRequest(name=house))
    show = await gallery.runway(house, "Fall 2026 Ready-to-Wear", "", [unique("look") for _ in range(3)])
    page = (await gallery.approve(show, RUNWAY)).official_id
    album = await gallery.street(unique("Cliville"), 2026, 2, [unique("cli")])
    snaps = (await gallery.approve(album)).official_id

    def act() -> None:
        [found] = instance.cli_json("catalogue", "runway", "--brand", house.upper())
        assert (found["runway_id"], found["brand"], found["image_count"]) == (page, house, 3)
        assert len(instance.cli_json("catalogue", "runway", page)["images"]) == 3
        shown = instance.cli("catalogue", "show", "runway", page).stdout
        assert house in shown
        assert shown.count("image/jpeg") == 3
        assert len(instance.cli_json("catalogue", "street", "-n", "1")) == 1
        snap = instance.cli_json("catalogue", "street", snaps)
        assert [image["content_type"] for image in snap["images"]] == ["image/jpeg"]
        assert house in [brand["name"] for brand in instance.cli_json("catalogue", "brands")]
        missing = instance.cli("catalogue", "runway", "99999999")
        assert missing.returncode == 1
        assert "RUNWAY_NOT_FOUND" in missing.stderr
        assert "frontrow catalogue runway" in missing.stderr
        nobody = instance.cli("catalogue", "runway", "--brand", unique("nobody"))
        assert "No runway page is public" in nobody.stdout
        assert instance.cli("catalogue", "street", "--brand", house).returncode == 2

    await asyncio.to_thread(act)


async def test_similar_images_are_found_until_they_are_dismissed(instance: Process, gallery: Gallery) -> None:
    key = await announced(gallery, "a5c3f00f12345678")
    near = await announced(gallery, "a5c3f00f12345679")

    def act() -> None:
        assert instance.cli_json("media", "similar", key) == [{"key": near, "distance": 1}]
        assert near in instance.cli("media", "similar", key, "--max-distance", "1").stdout
        assert "remembered" in instance.cli("media", "dismiss", key, near).stdout
        assert "Nothing looks like it." in instance.cli("media", "similar", near).stdout
        unknown = instance.cli("media", "similar", item_of(b"never stored").key)
        assert "MEDIA_NOT_FOUND" in unknown.stderr

    await asyncio.to_thread(act)
