"""Read and pin debug records for LiveMaterialService."""

from collections.abc import AsyncIterator
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

from frontrow.asr.v1 import debug_record_pb2
from frontrow.asr.v1 import live_material_service_pb2 as pb
from sqlalchemy import Row

from libs.common.db import Database
from libs.common.objects import ObjectMissing, ObjectStore
from services.asr import convert, repository_debug, repository_material

_OUTCOMES = {
    "running": debug_record_pb2.DEBUG_OUTCOME_RUNNING,
    "completed": debug_record_pb2.DEBUG_OUTCOME_COMPLETED,
    "failed": debug_record_pb2.DEBUG_OUTCOME_FAILED,
}


def record_prefix(material_id: UUID, asr_version: int) -> str:
    """Return where a run's record is kept (domain.md 2.6)."""
    return f"staging/asr/{material_id}/{asr_version}/"


class DebugRecords:
    """Debug records over the database that lists runs and the store that holds their stages."""

    def __init__(self, database: Database, store: ObjectStore) -> None:
        self._database = database
        self._store = store

    async def stream(self, request: pb.GetDebugRecordRequest) -> AsyncIterator[pb.GetDebugRecordResponse]:
        """Yield the material's runs, then the stages of the wanted one.

        Raises:
            MaterialNotFound, DebugRunNotFound.
        """
        material_id = convert.parse_id(request.live_material_id, "live_material_id")
        async with self._database.begin() as session:
            await repository_material.get(session, material_id)
            runs = await repository_debug.runs_of(session, material_id)
        wanted = request.asr_version or (runs[0].asr_version if runs else 0)
        if request.asr_version and all(run.asr_version != wanted for run in runs):
            raise repository_debug.not_found(material_id, wanted)
        listed = pb.DebugRuns(runs=map(_run_message, runs), asr_version=wanted)
        yield pb.GetDebugRecordResponse(runs=listed)
        for key in sorted([key async for key in self._store.list(record_prefix(material_id, wanted))]):
            name = PurePosixPath(key).stem
            try:
                async for chunk in self._store.stream(key):
                    yield pb.GetDebugRecordResponse(stage=pb.DebugStage(name=name, chunk=chunk))
            except ObjectMissing:
                continue  # cleaned up while it was read

    async def pin(self, request: pb.PinDebugRecordRequest) -> pb.PinDebugRecordResponse:
        """Pin a run's record, or let it go.

        Raises:
            MaterialNotFound, DebugRunNotFound.
        """
        material_id = convert.parse_id(request.live_material_id, "live_material_id")
        async with self._database.begin() as session:
            await repository_material.get(session, material_id)
            row = await repository_debug.pin(
                session, material_id, request.asr_version, pinned=not request.unpin
            )
        return pb.PinDebugRecordResponse(run=_run_message(row))


def _run_message(row: Row[Any]) -> debug_record_pb2.DebugRun:
    return debug_record_pb2.DebugRun(
        asr_version=row.asr_version,
        outcome=_OUTCOMES[row.outcome],
        pinned=row.pinned,
        start_time=convert.timestamp(row.started_at),
        end_time=convert.timestamp(row.ended_at),
    )
