"""Wire the ingest server: the one place that knows all of its parts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import grpc
from frontrow.ingest.v1 import (
    ingest_service_pb2,
    ingest_service_pb2_grpc,
    ingest_work_service_pb2,
    ingest_work_service_pb2_grpc,
)

from libs.common.client import connect
from libs.common.db import Database
from libs.common.follow import Follower
from libs.common.interceptors.admission import all_of
from libs.common.lane import Lane
from libs.common.outbox import OutboxRelay
from libs.common.readiness import DATABASE, DatabaseAnswers
from libs.common.server import Mounted
from libs.common.settings import CommonSettings
from libs.common.tasks import TaskPeer
from services.ingest.keyring import KeyRing
from services.ingest.loops.purge_nonces import NoncePurge
from services.ingest.metrics import IngestMetrics
from services.ingest.models import outbox
from services.ingest.parts import Parts
from services.ingest.peers import IntakeChecks
from services.ingest.refusals import TaskRefusals
from services.ingest.repository_follow import JobFollowSource
from services.ingest.repository_submit import Limits
from services.ingest.sealing import Sealer
from services.ingest.servicer import SUBMIT_METHOD, IngestServicer
from services.ingest.servicer_work import IngestWorkServicer
from services.ingest.settings import IngestSettings
from services.ingest.states import TASK_TYPE
from services.ingest.submit_desk import SubmitDesk
from services.ingest.tasks import CREATE_TASK

_NAMES = (
    ingest_service_pb2.DESCRIPTOR.services_by_name["IngestService"].full_name,
    ingest_work_service_pb2.DESCRIPTOR.services_by_name["IngestWorkService"].full_name,
)


@dataclass(frozen=True)
class _Wires:
    """What the server holds open: closed in this order, the database last."""

    lane: Lane
    answers: DatabaseAnswers
    to_task: grpc.aio.Channel
    to_review: grpc.aio.Channel
    database: Database

    async def close(self) -> None:
        """Close all of it; no handler runs any more."""
        await self.lane.close()
        await self.answers.close()
        await self.to_task.close()
        await self.to_review.close()
        await self.database.close()


def _wires(common: CommonSettings) -> _Wires:
    return _Wires(
        # joins within a flush's own rows: a nested loop would look at each pair of them
        lane=Lane(common.database, "frontrow-ingest-submit", enable_hashjoin="on"),
        answers=DatabaseAnswers(common.database, "frontrow-ingest-health"),
        to_task=connect(common.peers.task_address, transport=common.transport, actor="ingest"),
        to_review=connect(common.peers.review_address, transport=common.transport, actor="ingest"),
        database=Database(common.database, "frontrow-ingest"),
    )


async def mount(settings: IngestSettings, common: CommonSettings) -> Mounted:
    """Build the ingest server's parts over the database, the task service and review's intake."""
    sealer = await asyncio.to_thread(_sealer, settings)
    wires = _wires(common)
    database, peer = wires.database, TaskPeer(wires.to_task)
    relay = OutboxRelay(
        database, outbox, {CREATE_TASK: peer.create_sender}, together={CREATE_TASK: peer.create_together},
        on_rejected=TaskRefusals(database),
    )  # fmt: skip
    limits = Limits(settings.key_calls_per_second, settings.key_burst, settings.window_seconds)
    parts = Parts(
        database=database,
        sealer=sealer,
        checks=IntakeChecks(wires.to_review),
        keys=KeyRing(database, sealer),
        desk=SubmitDesk(wires.lane, limits),
        metrics=IngestMetrics(),
        wake_relay=relay.wake,
        max_attempts=settings.max_attempts,
    )

    def register(server: grpc.aio.Server) -> None:
        ingest_service_pb2_grpc.add_IngestServiceServicer_to_server(IngestServicer(parts), server)
        work = IngestWorkServicer(database, parts.metrics)
        ingest_work_service_pb2_grpc.add_IngestWorkServiceServicer_to_server(work, server)

    async def close() -> None:
        await parts.keys.drained()
        await parts.desk.drained()
        await wires.close()

    loops = (relay, *_loops(settings, database, peer))
    return Mounted(
        register=register,
        service_names=_NAMES,
        loops=loops,
        close=close,
        urgent=all_of(_NAMES[1], "RecordImages", "FinishJob", "PauseHost"),
        checks_late=[SUBMIT_METHOD],
        checks={DATABASE: wires.answers.check},
    )


def _loops(settings: IngestSettings, database: Database, peer: TaskPeer) -> tuple[Follower, NoncePurge]:
    follower = Follower(
        peer,
        JobFollowSource(database),
        types=[TASK_TYPE],
        interval_seconds=settings.follow_interval_seconds,
    )
    purge = NoncePurge(
        database,
        window_seconds=settings.window_seconds,
        interval_seconds=settings.purge_interval_seconds,
    )
    return follower, purge


def _sealer(settings: IngestSettings) -> Sealer:
    text = settings.sealing_key.get_secret_value()
    return Sealer.from_hex(text) if text else Sealer.from_file(settings.sealing_key_file)
