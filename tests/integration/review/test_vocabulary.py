"""Brands, cities and seasons: listed, created, given spellings."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from frontrow.review.v1 import key_service_pb2 as pb

from libs.common import paging
from libs.common.client import error_info, reason_of
from tests.integration.review.gallery import RUNWAY, Gallery, outcomes, unique


async def refusal(call: Any) -> grpc.aio.AioRpcError:
    """Return the error that a call ends with."""
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    return refused.value


async def test_a_brand_that_was_unknown_is_found_once_it_is_created(gallery: Gallery) -> None:
    name = unique("Maison Neuve ")
    unknown = await refusal(gallery.runway(name, "FW26", "", ["vb"]))
    assert reason_of(unknown) == "UNKNOWN_BRAND"
    brand = (await gallery.keys.CreateBrand(pb.CreateBrandRequest(name=name, aliases=["新屋" + name]))).brand
    assert brand.name == name.strip()
    draft = await gallery.runway(f"  {name.upper()}", "FW26", "", ["vb"])
    alias = await gallery.runway("新屋" + name, "FW26", "", ["vb2"])
    assert (await gallery.get(draft, RUNWAY)).runway.brand_id == brand.brand_id
    assert (await gallery.approve(draft, RUNWAY)).official_id == (
        await gallery.approve(alias, RUNWAY)
    ).official_id


async def test_a_spelling_names_one_brand_only(gallery: Gallery) -> None:
    error = await refusal(
        gallery.keys.CreateBrand(pb.CreateBrandRequest(name=unique("New"), aliases=["CHANEL "]))
    )
    assert (error.code(), reason_of(error)) == (grpc.StatusCode.ALREADY_EXISTS, "KEY_EXISTS")
    assert error_info(error).metadata["name"] == "Chanel"
    chanel = error_info(error).metadata["id"]
    again = await gallery.keys.AddBrandAlias(pb.AddBrandAliasRequest(brand_id=chanel, alias="chanel"))
    assert again.brand.brand_id == chanel
    added = await gallery.keys.AddBrandAlias(pb.AddBrandAliasRequest(brand_id=chanel, alias="Maison Chanel"))
    assert "Maison Chanel" in added.brand.aliases
    missing = await refusal(gallery.keys.AddBrandAlias(pb.AddBrandAliasRequest(brand_id="999999", alias="x")))
    assert reason_of(missing) == "KEY_NOT_FOUND"


async def test_of_many_creations_of_one_brand_one_wins(gallery: Gallery) -> None:
    name = unique("Together")
    replies = await outcomes(*(gallery.keys.CreateBrand(pb.CreateBrandRequest(name=name)) for _ in range(6)))
    lost = [reply for reply in replies if isinstance(reply, grpc.aio.AioRpcError)]
    assert len(lost) == 5
    assert {reason_of(error) for error in lost} == {"KEY_EXISTS"}


async def test_a_name_without_a_visible_character_is_refused(gallery: Gallery) -> None:
    for name in (" ", "\u200b"):
        error = await refusal(gallery.keys.CreateCity(pb.CreateCityRequest(name=name)))
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_cities_are_paged_and_an_unseen_one_is_marked(gallery: Gallery) -> None:
    city = unique("Unseen")
    await gallery.street(city, 2026, 2, ["vc"])
    seen: dict[str, Any] = {}
    request = pb.ListCitiesRequest(page_size=50)
    while True:
        reply = await gallery.keys.ListCities(request)
        seen |= {found.name: found for found in reply.cities}
        if not reply.next_page_token:
            break
        request.page_token = reply.next_page_token
    assert seen["Copenhagen"].known
    assert "哥本哈根" in seen["Copenhagen"].aliases
    assert not seen[city].known
    assert len(seen) > 100


async def test_a_season_that_no_table_knows_can_be_created_with_its_spellings(gallery: Gallery) -> None:
    code = unique("Trans")
    created = await gallery.keys.CreateSeason(pb.CreateSeasonRequest(season_code=code, name="Trans-seasonal"))
    assert created.season.known
    alias = pb.AddSeasonAliasRequest(season_code=code, alias=f"{code} haute", line="Couture")
    assert (await gallery.keys.AddSeasonAlias(alias)).season.aliases[1].line == "Couture"
    draft = await gallery.get(await gallery.runway("Prada", f"{code.upper()} HAUTE", "", ["vs"]), RUNWAY)
    assert (draft.runway.season_code, draft.runway.season_known) == (code, True)
    assert draft.runway.collection_name == "Couture"
    for request in (
        pb.AddSeasonAliasRequest(season_code=code, alias="FW26"),
        pb.AddSeasonAliasRequest(season_code="FW26x", alias="anything"),
    ):
        assert reason_of(await refusal(gallery.keys.AddSeasonAlias(request))) in {
            "KEY_EXISTS",
            "KEY_NOT_FOUND",
        }
    again = await refusal(gallery.keys.CreateSeason(pb.CreateSeasonRequest(season_code=code, name="x")))
    assert reason_of(again) == "KEY_EXISTS"
    await gallery.runway("Prada", "SS29", "", ["vs"])
    listed = await gallery.keys.ListSeasons(pb.ListSeasonsRequest(page_size=1000))
    assert {code, "SS29"} <= {season.season_code for season in listed.seasons}


async def test_keys_with_many_spellings_make_shorter_pages_and_none_is_left_out(
    gallery: Gallery, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await gallery.keys.ListSeasons(pb.ListSeasonsRequest(page_size=1000))
    cities = await gallery.keys.ListCities(pb.ListCitiesRequest(page_size=1000))
    fit = paging.within_budget
    monkeypatch.setattr(paging, "within_budget", lambda messages: fit(messages, 400))
    found, request = [], pb.ListSeasonsRequest(page_size=1000)
    while not found or request.page_token:
        reply = await gallery.keys.ListSeasons(request)
        assert len(reply.seasons) == 1 or sum(season.ByteSize() for season in reply.seasons) <= 400
        found += reply.seasons
        request.page_token = reply.next_page_token
    assert found == list(whole.seasons)
    first = await gallery.keys.ListCities(pb.ListCitiesRequest(page_size=1000))
    assert 0 < len(first.cities) < len(cities.cities)
    assert first.next_page_token
