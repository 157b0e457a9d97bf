"""Wire the review context: the one seam between its parts and a server."""

from __future__ import annotations

from datetime import timedelta

import grpc
from frontrow.review.v1 import (
    catalog_service_pb2_grpc,
    draft_service_pb2_grpc,
    intake_service_pb2_grpc,
    key_service_pb2_grpc,
    media_service_pb2_grpc,
)

from libs.common.db import Database
from libs.common.interceptors.admission import all_of
from libs.common.lanes import Lanes
from libs.common.loops import Periodic
from libs.common.objects import open_store
from libs.common.readiness import DATABASE, DatabaseAnswers
from libs.common.server import Mounted
from libs.common.settings import CommonSettings
from services.review.cleanup import CleanUpLimits, MediaCare
from services.review.desk import Desk
from services.review.renditions import Renditions
from services.review.servicer_catalog import CatalogServicer
from services.review.servicer_draft import DraftServicer
from services.review.servicer_intake import IntakeServicer
from services.review.servicer_key import KeyServicer
from services.review.servicer_media import MediaServicer
from services.review.settings import ReviewSettings

READERS = 2
UNUSED_SECONDS = 60.0
SERVICE_NAMES = tuple(
    f"frontrow.review.v1.{name}"
    for name in ("DraftService", "IntakeService", "CatalogService", "KeyService", "MediaService")
)
# The images are stored already.
_URGENT = all_of(
    "frontrow.review.v1.IntakeService", "ConfirmMedia", "CreateRunwayDraft", "CreateStreetSnapDraft"
)


async def mount(settings: ReviewSettings, common: CommonSettings) -> Mounted:
    """Return what the review context puts on its server. Migrations are the caller's."""
    database = Database(common.database, "frontrow-review")
    store = open_store(common.store)
    limits = {"limit_bytes": settings.publish_limit_bytes, "room_bytes": settings.publish_room_bytes}
    renditions = Renditions(database, store, **limits)
    connections = common.database.pool_size + common.database.max_overflow
    # changes wait for locks; some connections are always left for those who only read
    lanes = Lanes(common.database, "frontrow-review-lane", count=connections)
    desk = Desk(database, lanes, room=max(1, connections - READERS))
    care = MediaCare(database, store, _limits(settings))

    def register(server: grpc.aio.Server) -> None:
        draft_service_pb2_grpc.add_DraftServiceServicer_to_server(
            DraftServicer(database, lanes, renditions, desk), server
        )
        intake_service_pb2_grpc.add_IntakeServiceServicer_to_server(IntakeServicer(database), server)
        catalog_service_pb2_grpc.add_CatalogServiceServicer_to_server(
            CatalogServicer(database, renditions), server
        )
        key_service_pb2_grpc.add_KeyServiceServicer_to_server(KeyServicer(database), server)
        media_service_pb2_grpc.add_MediaServiceServicer_to_server(
            MediaServicer(database, lanes, care), server
        )

    answers = DatabaseAnswers(common.database, "frontrow-review-health")

    async def close() -> None:
        await answers.close()
        await lanes.close()
        await database.close()

    return Mounted(
        register=register,
        service_names=SERVICE_NAMES,
        loops=(Periodic("review:connections", UNUSED_SECONDS, lanes.close_unused),),
        close=close,
        urgent=_URGENT,
        checks={DATABASE: answers.check, "store": store.check},
    )


def _limits(settings: ReviewSettings) -> CleanUpLimits:
    return CleanUpLimits(
        grace=timedelta(seconds=settings.clean_up_grace_seconds),
        share=settings.clean_up_share,
        plausible=settings.clean_up_plausible_count,
    )
