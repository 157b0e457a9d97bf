"""MediaService: the care of stored images, for operators."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import grpc
from frontrow.review.v1 import media_service_pb2 as pb
from frontrow.review.v1 import media_service_pb2_grpc

from libs.common import paging
from libs.common.interceptors.context import current_actor
from services.review.cleanup import MediaCare

Context = grpc.aio.ServicerContext[Any, Any]


class MediaServicer(media_service_pb2_grpc.MediaServiceServicer):
    """Cleans up and compares."""

    def __init__(self, care: MediaCare) -> None:
        self._care = care

    async def CleanUpMedia(
        self, request: pb.CleanUpMediaRequest, context: Context
    ) -> pb.CleanUpMediaResponse:
        """See the proto."""
        result = await self._care.clean_up(actor=current_actor(), apply=request.apply)
        return pb.CleanUpMediaResponse(**asdict(result), applied=request.apply)

    async def VerifyMedia(self, request: pb.VerifyMediaRequest, context: Context) -> pb.VerifyMediaResponse:
        """See the proto."""
        limit = paging.page_size(request.page_size)
        position = paging.decode_token(request.page_token, request)
        after = 0 if position is None else int(str(position[0]))
        damaged, checked, last = await self._care.verify(after, limit)
        return pb.VerifyMediaResponse(
            checked_count=checked,
            damaged=[
                pb.DamagedMedia(key=key, damage=pb.MediaDamage.Value(f"MEDIA_DAMAGE_{damage.name}"))
                for key, damage in damaged
            ],
            next_page_token="" if last is None else paging.encode_token([last], request),
        )
