"""What the RPCs of IngestService share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from frontrow.ingest.v1 import ingest_service_pb2_grpc

from libs.common.db import Database
from services.ingest.keyring import KeyRing
from services.ingest.metrics import IngestMetrics
from services.ingest.peers import IntakeChecks
from services.ingest.sealing import Sealer
from services.ingest.submit_desk import SubmitDesk


@dataclass(frozen=True)
class Parts:
    """The parts of the server; `wake_relay` is called after a commit that wrote to the outbox."""

    database: Database
    sealer: Sealer
    checks: IntakeChecks
    keys: KeyRing
    desk: SubmitDesk
    metrics: IngestMetrics
    wake_relay: Callable[[], None]
    max_attempts: int


class Rpcs(ingest_service_pb2_grpc.IngestServiceServicer):
    """A group of RPCs of IngestService."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._database = parts.database
