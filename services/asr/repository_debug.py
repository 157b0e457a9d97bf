"""SQL of the runs that have a debug record. Every function takes the session first and never commits."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Row, case, delete, exists, func, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from services.asr.errors import DebugRunNotFound
from services.asr.models import debug_runs, live_materials
from services.asr.states import AsrStatus


async def started(session: AsyncSession, material_id: UUID, asr_version: int) -> None:
    """Note that a run began. A repeat changes nothing."""
    row = {"material_id": material_id, "asr_version": asr_version}
    await session.execute(upsert(debug_runs).values(row).on_conflict_do_nothing())


async def ended(session: AsyncSession, material_id: UUID, asr_version: int, outcome: str) -> None:
    """Note how a run ended. A repeat changes nothing."""
    statement = update(debug_runs).where(
        debug_runs.c.material_id == material_id,
        debug_runs.c.asr_version == asr_version,
        debug_runs.c.outcome == "running",
    )
    await session.execute(statement.values(outcome=outcome, ended_at=func.now()))


# One that noted no end runs only while it is its material's current one; else it died, or was refused.
_CURRENT = (
    exists()
    .where(
        live_materials.c.id == debug_runs.c.material_id,
        live_materials.c.asr_status == AsrStatus.PROCESSING,
        live_materials.c.asr_version == debug_runs.c.asr_version,
    )
    .correlate(debug_runs)
)
_OUTCOME = case(((debug_runs.c.outcome == "running") & ~_CURRENT, "failed"), else_=debug_runs.c.outcome)
_COLUMNS: tuple[ColumnElement[Any], ...] = (
    debug_runs.c.material_id,
    debug_runs.c.asr_version,
    _OUTCOME.label("outcome"),
    debug_runs.c.pinned,
    debug_runs.c.started_at,
    debug_runs.c.ended_at,
    func.now().label("now"),
)


async def runs_of(session: AsyncSession, material_id: UUID) -> Sequence[Row[Any]]:
    """Read a material's runs, newest first."""
    query = select(*_COLUMNS).where(debug_runs.c.material_id == material_id)
    return (await session.execute(query.order_by(debug_runs.c.asr_version.desc()))).all()


async def pin(session: AsyncSession, material_id: UUID, asr_version: int, *, pinned: bool) -> Row[Any]:
    """Set or clear a run's pin; returns its row.

    Raises:
        DebugRunNotFound: there is no such run.
    """
    statement = (
        update(debug_runs)
        .where(debug_runs.c.material_id == material_id, debug_runs.c.asr_version == asr_version)
        .values(pinned=pinned)
        .returning(*_COLUMNS)
    )
    row: Row[Any] | None = (await session.execute(statement)).one_or_none()
    if row is None:
        raise not_found(material_id, asr_version)
    return row


def not_found(material_id: UUID, asr_version: int) -> DebugRunNotFound:
    """Make the error for a run without a record."""
    return DebugRunNotFound(
        f"there is no debug record of run {asr_version}; old ones are cleaned up unless they are pinned",
        live_material_id=str(material_id),
        asr_version=str(asr_version),
    )


async def all_runs(session: AsyncSession) -> Sequence[Row[Any]]:
    """Read every run, and what time it is."""
    return (await session.execute(select(*_COLUMNS))).all()


async def forget(session: AsyncSession, material_id: UUID, asr_version: int) -> bool:
    """Delete a run's row unless somebody has pinned it meanwhile; tells whether it went."""
    statement = (
        delete(debug_runs)
        .where(
            debug_runs.c.material_id == material_id,
            debug_runs.c.asr_version == asr_version,
            ~debug_runs.c.pinned,
        )
        .returning(debug_runs.c.asr_version)
    )
    return (await session.execute(statement)).one_or_none() is not None
