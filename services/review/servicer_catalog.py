"""CatalogService: what the public reads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import grpc
from frontrow.review.v1 import catalog_pb2, catalog_service_pb2_grpc
from frontrow.review.v1 import catalog_service_pb2 as pb

from libs.common import paging
from libs.common.db import Database
from services.review import repository_list
from services.review.convert_catalog import image_message, runway_message, street_snap_message
from services.review.convert_media import info_message, min_width_of
from services.review.errors import RunwayNotFound, StreetSnapNotFound
from services.review.models import RUNWAY, STREET
from services.review.renditions import Info, Renditions

Context = grpc.aio.ServicerContext[Any, Any]


class CatalogServicer(catalog_service_pb2_grpc.CatalogServiceServicer):
    """Reads visible official rows and their images, and nothing else."""

    def __init__(self, database: Database, renditions: Renditions) -> None:
        self._database = database
        self._renditions = renditions

    async def ListRunways(self, request: pb.ListRunwaysRequest, context: Context) -> pb.ListRunwaysResponse:
        """See the proto."""
        limit, before = paging.page_size(request.page_size), _before(request.page_token, request)
        async with self._database.begin() as session:
            found = await repository_list.list_runways(
                session, request.brand, request.season, before_id=before, limit=limit + 1
            )
        shown = paging.within_budget(runway_message(row) for row in found[:limit])
        token = paging.encode_token([found[len(shown) - 1].id], request) if len(found) > len(shown) else ""
        return pb.ListRunwaysResponse(runways=shown, next_page_token=token)

    async def GetRunway(self, request: pb.GetRunwayRequest, context: Context) -> pb.GetRunwayResponse:
        """See the proto."""
        row_id, after = int(request.runway_id), _after_image(request)
        async with self._database.begin() as session:
            row = await repository_list.find_official(session, RUNWAY, row_id)
            if row is None:
                raise RunwayNotFound(f"no runway is published under {row_id}", runway_id=str(row_id))
            found = await repository_list.official_images(session, RUNWAY, row_id, after=after)
        images, token = _images(found, request)
        return pb.GetRunwayResponse(runway=runway_message(row, images), next_images_page_token=token)

    async def ListStreetSnaps(
        self, request: pb.ListStreetSnapsRequest, context: Context
    ) -> pb.ListStreetSnapsResponse:
        """See the proto."""
        limit, before = paging.page_size(request.page_size), _before(request.page_token, request)
        async with self._database.begin() as session:
            found = await repository_list.list_street_snaps(session, before_id=before, limit=limit + 1)
        shown = paging.within_budget(street_snap_message(row) for row in found[:limit])
        token = paging.encode_token([found[len(shown) - 1].id], request) if len(found) > len(shown) else ""
        return pb.ListStreetSnapsResponse(street_snaps=shown, next_page_token=token)

    async def GetStreetSnap(
        self, request: pb.GetStreetSnapRequest, context: Context
    ) -> pb.GetStreetSnapResponse:
        """See the proto."""
        row_id, after = int(request.street_snap_id), _after_image(request)
        async with self._database.begin() as session:
            row = await repository_list.find_official(session, STREET, row_id)
            if row is None:
                raise StreetSnapNotFound(f"no album is published under {row_id}", street_snap_id=str(row_id))
            found = await repository_list.official_images(session, STREET, row_id, after=after)
        images, token = _images(found, request)
        album = street_snap_message(row, images)
        return pb.GetStreetSnapResponse(street_snap=album, next_images_page_token=token)

    async def ListBrands(self, request: pb.ListBrandsRequest, context: Context) -> pb.ListBrandsResponse:
        """See the proto."""
        limit = paging.page_size(request.page_size)
        after = paging.decode_token(request.page_token, request, str, int)
        async with self._database.begin() as session:
            found = await repository_list.list_shown_brands(session, after=after, limit=limit + 1)
        shown = found[:limit]
        more = len(found) > limit
        return pb.ListBrandsResponse(
            brands=[
                pb.CatalogBrand(brand_id=str(row.id), name=row.name, runway_count=row.runway_count)
                for row in shown
            ],
            next_page_token=paging.encode_token([shown[-1].name, shown[-1].id], request) if more else "",
        )

    async def GetMedia(
        self, request: pb.GetMediaRequest, context: Context
    ) -> AsyncIterator[pb.GetMediaResponse]:
        """See the proto."""
        width = min_width_of(request.size, request.min_width)
        row = await self._renditions.find(request.media_key, min_width=width, public=True)
        async with aclosing(self._renditions.published(row)) as parts:
            async for part in parts:
                if isinstance(part, Info):
                    yield pb.GetMediaResponse(info=info_message(part))
                else:
                    yield pb.GetMediaResponse(chunk=part)


def _before(token: str, request: pb.ListRunwaysRequest | pb.ListStreetSnapsRequest) -> int | None:
    """Return the id that a page continues below, None for the first page."""
    position = paging.decode_token(token, request, int)
    return None if position is None else position[0]


_GetRequest = pb.GetRunwayRequest | pb.GetStreetSnapRequest


def _after_image(request: _GetRequest) -> int:
    """Return the position that the images continue after, -1 for the first ones."""
    position = paging.decode_token(request.images_page_token, _bound(request), int)
    return -1 if position is None else position[0]


def _images(rows: Sequence[Any], request: _GetRequest) -> tuple[list[catalog_pb2.OfficialImage], str]:
    """Return the images that fit into one reply, and the token for the others."""
    images = paging.within_budget(image_message(row) for row in rows)
    if len(images) == len(rows):
        return images, ""
    return images, paging.encode_token([rows[len(images) - 1].position], _bound(request))


def _bound(request: _GetRequest) -> _GetRequest:
    """Return the request without its token, which a token can't be bound to."""
    if isinstance(request, pb.GetRunwayRequest):
        return pb.GetRunwayRequest(runway_id=request.runway_id)
    return pb.GetStreetSnapRequest(street_snap_id=request.street_snap_id)
