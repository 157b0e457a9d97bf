"""What the follower of tasks reads and writes for materials (domain.md 2.2)."""

from typing import Any
from uuid import UUID

from sqlalchemy import Update, case, func, or_, update

from libs.common.db import Database
from services.asr.models import live_materials
from services.asr.repository_followed import FollowedRows
from services.asr.states import CANCELLED_REASON, AsrStatus, cut_message

# Reasons that say more than what the failed run noted about itself.
_TELLING = frozenset({CANCELLED_REASON, "ABANDONED"})


class MaterialFollowSource(FollowedRows):
    """Materials as followers of their tasks: each write is one guarded UPDATE."""

    def __init__(self, database: Database) -> None:
        columns = live_materials.c
        super().__init__(
            database,
            live_materials,
            task_id=columns.asr_task_id,
            seen_version=columns.seen_task_version,
            status=columns.asr_status,
        )

    async def requeued(self, owner_id: str, task_id: str, version: int) -> None:
        """Turn the material pending and raise asr_version, so that the old run is refused from now on."""
        statement = _newer(owner_id, task_id, version).values(
            asr_status=AsrStatus.PENDING,
            asr_version=live_materials.c.asr_version + 1,
            seen_task_version=version,
            asr_progress=0,
            cancel_requested=False,
            updated_at=func.now(),
        )
        async with self._database.begin() as session:
            await session.execute(statement)

    async def ended(self, owner_id: str, task_id: str, version: int, reason: str, message: str) -> None:
        """Turn the material failed with the reason; what a run noted of its failure itself is kept."""
        noted = live_materials.c.asr_error_reason
        keep = or_(
            live_materials.c.asr_status == AsrStatus.FAILED,
            (noted != "") if reason not in _TELLING else noted == reason,
        )
        values: dict[str, Any] = {
            "asr_status": AsrStatus.FAILED,
            "seen_task_version": version,
            "asr_error_reason": case((keep, noted), else_=reason),
            "asr_error": case((keep, live_materials.c.asr_error), else_=cut_message(message)),
            "cancel_requested": False,
            "updated_at": func.now(),
        }
        async with self._database.begin() as session:
            await session.execute(_newer(owner_id, task_id, version).values(values))

    async def rejected(self, subject_id: str, task_id: str, reason: str) -> None:
        """Turn a material failed whose task could never be created."""
        statement = (
            update(live_materials)
            .where(
                live_materials.c.id == UUID(subject_id),
                live_materials.c.asr_task_id == UUID(task_id),
                live_materials.c.asr_status == AsrStatus.PENDING,
            )
            .values(
                asr_status=AsrStatus.FAILED,
                asr_error_reason="TASK_REJECTED",
                asr_error=cut_message(reason),
                updated_at=func.now(),
            )
        )
        async with self._database.begin() as session:
            await session.execute(statement)


def _newer(owner_id: str, task_id: str, version: int) -> Update:
    return update(live_materials).where(
        live_materials.c.id == UUID(owner_id),
        live_materials.c.asr_task_id == UUID(task_id),
        live_materials.c.seen_task_version < version,
        live_materials.c.asr_status != AsrStatus.COMPLETED,
    )
