"""MediaService: the care of stored images, for operators."""

from __future__ import annotations

from typing import Any

import grpc
from frontrow.review.v1 import media_service_pb2 as pb
from frontrow.review.v1 import media_service_pb2_grpc

from libs.common import deadline, paging
from libs.common.db import Database
from libs.common.errors import InvalidArgument
from libs.common.interceptors.context import current_actor
from libs.common.lanes import Lanes
from services.review import repository_similar
from services.review.cleanup import MediaCare, Progress
from services.review.similarity import MAX_DISTANCE

# A page of work ends well before a call's limit.
PAGE_SECONDS = 15.0
Context = grpc.aio.ServicerContext[Any, Any]


class MediaServicer(media_service_pb2_grpc.MediaServiceServicer):
    """Cleans up, compares, and suggests near-duplicates."""

    def __init__(self, database: Database, lanes: Lanes, care: MediaCare) -> None:
        self._database = database
        self._lanes = lanes
        self._care = care

    async def CleanUpMedia(
        self, request: pb.CleanUpMediaRequest, context: Context
    ) -> pb.CleanUpMediaResponse:
        """See the proto."""
        position = paging.decode_token(request.page_token, request, int, bool)
        start = Progress() if position is None else Progress(position[0], looked=position[1])
        result = await self._care.clean_up(
            actor=current_actor(), apply=request.apply, start=start, seconds=_page_seconds()
        )
        rest = result.rest
        return pb.CleanUpMediaResponse(
            total_count=result.total_count,
            marked_count=result.marked_count,
            deleted_count=result.deleted_count,
            deleted_bytes=result.deleted_bytes,
            deleted_keys=result.deleted_keys,
            applied=request.apply,
            next_page_token="" if rest is None else paging.encode_token([rest.after, rest.looked], request),
        )

    async def VerifyMedia(self, request: pb.VerifyMediaRequest, context: Context) -> pb.VerifyMediaResponse:
        """See the proto."""
        limit = paging.page_size(request.page_size)
        position = paging.decode_token(request.page_token, request, int)
        after = 0 if position is None else position[0]
        damaged, checked, last = await self._care.verify(after, limit, seconds=_page_seconds())
        return pb.VerifyMediaResponse(
            checked_count=checked,
            damaged=[
                pb.DamagedMedia(key=key, damage=pb.MediaDamage.Value(f"MEDIA_DAMAGE_{damage.name}"))
                for key, damage in damaged
            ],
            next_page_token="" if last is None else paging.encode_token([last], request),
        )

    async def FindSimilar(self, request: pb.FindSimilarRequest, context: Context) -> pb.FindSimilarResponse:
        """See the proto."""
        distance = request.max_distance or MAX_DISTANCE
        async with self._lanes.statements() as connection:
            found = await repository_similar.find_similar(connection, request.media_key, distance)
        return pb.FindSimilarResponse(
            similar=[pb.SimilarMedia(key=near["key"], distance=near["distance"]) for near in found]
        )

    async def DismissSimilar(
        self, request: pb.DismissSimilarRequest, context: Context
    ) -> pb.DismissSimilarResponse:
        """See the proto."""
        if request.media_key == request.other_key:
            raise InvalidArgument.of_field("other_key", "must be another image's key")
        async with self._database.begin() as session:
            one = await repository_similar.original(session, request.media_key)
            other = await repository_similar.original(session, request.other_key)
            await repository_similar.dismiss(session, one, other, current_actor())
        return pb.DismissSimilarResponse()


def _page_seconds() -> float:
    """Return how long a call may go on with work that another call can continue."""
    left = deadline.remaining_seconds()
    return PAGE_SECONDS if left is None else min(PAGE_SECONDS, left / 2)
