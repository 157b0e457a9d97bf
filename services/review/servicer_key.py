"""KeyService: the vocabulary of keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

import grpc
from frontrow.review.v1 import key_pb2, key_service_pb2_grpc
from frontrow.review.v1 import key_service_pb2 as pb

from libs.common import paging
from libs.common.db import Database
from libs.common.errors import InvalidArgument
from libs.common.interceptors.context import current_actor
from services.review import repository_key
from services.review.convert_catalog import brand_message, city_message, season_message
from services.review.fold import clean
from services.review.merging import Merger
from services.review.repository_key import BRANDS, CITIES, Vocabulary
from services.review.repository_merge import BRAND, CITY, SEASON, Identity, Pointers

Context = grpc.aio.ServicerContext[Any, Any]
M = TypeVar("M", key_pb2.Brand, key_pb2.City)

_POINTERS = {pb.KEY_TYPE_BRAND: BRAND, pb.KEY_TYPE_CITY: CITY, pb.KEY_TYPE_SEASON: SEASON}


class KeyServicer(key_service_pb2_grpc.KeyServiceServicer):
    """Lists and extends brands, cities and seasons."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._merger = Merger(database)

    async def ListBrandKeys(
        self, request: pb.ListBrandKeysRequest, context: Context
    ) -> pb.ListBrandKeysResponse:
        """See the proto."""
        brands, token = await self._names(BRANDS, request, brand_message)
        return pb.ListBrandKeysResponse(brands=brands, next_page_token=token)

    async def CreateBrand(self, request: pb.CreateBrandRequest, context: Context) -> pb.CreateBrandResponse:
        """See the proto."""
        row = await self._create(BRANDS, request.name, list(request.aliases))
        return pb.CreateBrandResponse(brand=brand_message(row))

    async def AddBrandAlias(
        self, request: pb.AddBrandAliasRequest, context: Context
    ) -> pb.AddBrandAliasResponse:
        """See the proto."""
        row = await self._add_alias(BRANDS, int(request.brand_id), request.alias)
        return pb.AddBrandAliasResponse(brand=brand_message(row))

    async def ListCities(self, request: pb.ListCitiesRequest, context: Context) -> pb.ListCitiesResponse:
        """See the proto."""
        cities, token = await self._names(CITIES, request, city_message)
        return pb.ListCitiesResponse(cities=cities, next_page_token=token)

    async def CreateCity(self, request: pb.CreateCityRequest, context: Context) -> pb.CreateCityResponse:
        """See the proto."""
        row = await self._create(CITIES, request.name, list(request.aliases))
        return pb.CreateCityResponse(city=city_message(row))

    async def AddCityAlias(
        self, request: pb.AddCityAliasRequest, context: Context
    ) -> pb.AddCityAliasResponse:
        """See the proto."""
        row = await self._add_alias(CITIES, int(request.city_id), request.alias)
        return pb.AddCityAliasResponse(city=city_message(row))

    async def ListSeasons(self, request: pb.ListSeasonsRequest, context: Context) -> pb.ListSeasonsResponse:
        """See the proto."""
        limit = paging.page_size(request.page_size)
        position = paging.decode_token(request.page_token, request, str)
        after = None if position is None else position[0]
        async with self._database.begin() as session:
            found = await repository_key.list_seasons(session, after_code=after, limit=limit + 1)
            spellings = await repository_key.season_spellings(session, [row.code for row in found[:limit]])
        shown = paging.within_budget(season_message(row, spellings) for row in found[:limit])
        more = len(found) > len(shown)
        token = paging.encode_token([found[len(shown) - 1].code], request) if more else ""
        return pb.ListSeasonsResponse(seasons=shown, next_page_token=token)

    async def CreateSeason(
        self, request: pb.CreateSeasonRequest, context: Context
    ) -> pb.CreateSeasonResponse:
        """See the proto."""
        code = clean(request.season_code)
        async with self._database.begin() as session:
            await repository_key.create_season(session, code, request.name)
        return pb.CreateSeasonResponse(season=await self._season(code))

    async def AddSeasonAlias(
        self, request: pb.AddSeasonAliasRequest, context: Context
    ) -> pb.AddSeasonAliasResponse:
        """See the proto."""
        async with self._database.begin() as session:
            await repository_key.find_season(session, request.season_code)
            await repository_key.add_season_alias(session, request.season_code, request.alias, request.line)
        return pb.AddSeasonAliasResponse(season=await self._season(request.season_code))

    async def MergeKeys(self, request: pb.MergeKeysRequest, context: Context) -> pb.MergeKeysResponse:
        """See the proto."""
        pointers = _POINTERS[request.key_type]
        source, target = _identity(pointers, request.source_id), _identity(pointers, request.target_id)
        report = await self._merger.merge(
            pointers, source, target, actor=current_actor(), apply=request.apply
        )
        return pb.MergeKeysResponse(report=pb.MergeReport(**asdict(report)), applied=request.apply)

    async def UnmergeKeys(self, request: pb.UnmergeKeysRequest, context: Context) -> pb.UnmergeKeysResponse:
        """See the proto."""
        pointers = _POINTERS[request.key_type]
        report = await self._merger.unmerge(
            pointers, _identity(pointers, request.id), actor=current_actor(), apply=request.apply
        )
        return pb.UnmergeKeysResponse(report=pb.MergeReport(**asdict(report)), applied=request.apply)

    async def _season(self, code: str) -> key_pb2.Season:
        async with self._database.begin() as session:
            row = await repository_key.find_season(session, code)
            return season_message(row, await repository_key.season_spellings(session, [code]))

    async def _names(
        self,
        vocabulary: Vocabulary,
        request: pb.ListBrandKeysRequest | pb.ListCitiesRequest,
        message: Callable[[Any], M],
    ) -> tuple[list[M], str]:
        limit = paging.page_size(request.page_size)
        position = paging.decode_token(request.page_token, request, int)
        after = None if position is None else position[0]
        async with self._database.begin() as session:
            found = await repository_key.list_names(session, vocabulary, after_id=after, limit=limit + 1)
        shown = paging.within_budget(message(row) for row in found[:limit])
        more = len(found) > len(shown)
        return shown, paging.encode_token([found[len(shown) - 1].id], request) if more else ""

    async def _create(self, vocabulary: Vocabulary, name: str, aliases: list[str]) -> Any:
        async with self._database.begin() as session:
            row_id = await repository_key.create_name(session, vocabulary, name, aliases)
            return await repository_key.find_name(session, vocabulary, row_id)

    async def _add_alias(self, vocabulary: Vocabulary, row_id: int, alias: str) -> Any:
        async with self._database.begin() as session:
            await repository_key.find_name(session, vocabulary, row_id)
            await repository_key.add_alias(session, vocabulary, row_id, alias)
            return await repository_key.find_name(session, vocabulary, row_id)


def _identity(pointers: Pointers, text: str) -> Identity:
    """Return an id of the vocabulary; seasons are known by their codes. Raises InvalidArgument."""
    if pointers is SEASON:
        return text
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidArgument.of_field("id", f"{text!r} is no id of a {pointers.noun}")
    return int(text)
