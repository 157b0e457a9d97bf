"""SQL of a transcription run: begin, progress, parts, result, failure. Guards stand in the WHERE clauses.

Every function takes the session first and never commits.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Row, Update, delete, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from services.asr import repository_material
from services.asr.errors import LeaseLost, Superseded
from services.asr.models import live_materials, transcript_paragraphs, transcript_parts, transcripts
from services.asr.states import AsrStatus, Begin, cut_message, decide_begin


def lease_lost(material_id: UUID, asr_version: int) -> LeaseLost:
    """Make the error that stops a run which is not the current one any more."""
    return LeaseLost(
        "this run is not the material's current one any more; stop and write nothing",
        material_id=str(material_id),
        asr_version=str(asr_version),
    )


def live(material_id: UUID, asr_version: int) -> Update:
    """Begin an UPDATE that takes effect only while the run is the current one (domain.md 2.1)."""
    return update(live_materials).where(
        live_materials.c.id == material_id,
        live_materials.c.asr_status == AsrStatus.PROCESSING,
        live_materials.c.asr_version == asr_version,
    )


async def begin(
    session: AsyncSession, material_id: UUID, task_id: UUID, task_version: int
) -> tuple[Begin, Row[Any]]:
    """Begin a run (domain.md 2.1); returns what it amounts to and the material's row after it.

    Raises:
        MaterialNotFound: the material is gone.
        Superseded: another task is the material's current one.
        LeaseLost: a newer version of the task was seen, or this version's run has ended.
    """
    statement = update(live_materials).where(
        live_materials.c.id == material_id,
        live_materials.c.asr_task_id == task_id,
        live_materials.c.asr_status != AsrStatus.COMPLETED,
        live_materials.c.seen_task_version < task_version,
    )
    begun = statement.values(
        asr_status=AsrStatus.PROCESSING,
        asr_version=live_materials.c.asr_version + 1,
        seen_task_version=task_version,
        asr_progress=0,
        asr_error_reason="",
        asr_error="",
        updated_at=func.now(),
    )
    if (await session.execute(begun.returning(live_materials.c.id))).one_or_none() is not None:
        return Begin.BEGIN, await repository_material.get(session, material_id)
    # locked: what is answered stays true until the transaction ends
    row = await repository_material.get(session, material_id, for_update=True)
    decision = decide_begin(row, task_id, task_version)
    if decision is Begin.SUPERSEDED:
        raise Superseded(
            "another task transcribes this material now; end this one, not retryable",
            task_id=str(task_id),
            current_task_id=str(row.asr_task_id or ""),
        )
    if decision in {Begin.LEASE_LOST, Begin.BEGIN}:
        # BEGIN: the row has changed since the UPDATE looked at it; the next claim finds out what into
        raise lease_lost(material_id, row.asr_version)
    return decision, row


async def lock_live(session: AsyncSession, material_id: UUID, asr_version: int) -> UUID:
    """Make sure that the run is the current one, and keep it so until the transaction ends.

    Returns the id of the upload that the material's recording is.

    Raises:
        MaterialNotFound: the material is gone.
        LeaseLost: the run is not the current one any more.
    """
    query = select(live_materials.c.upload_id).where(
        live_materials.c.id == material_id,
        live_materials.c.asr_status == AsrStatus.PROCESSING,
        live_materials.c.asr_version == asr_version,
    )
    upload_id: UUID | None = (await session.execute(query.with_for_update())).scalar_one_or_none()
    if upload_id is None:
        await repository_material.get(session, material_id)
        raise lease_lost(material_id, asr_version)
    return upload_id


async def update_progress(session: AsyncSession, material_id: UUID, asr_version: int, progress: int) -> None:
    """Raise the progress; a lower value is ignored.

    Raises:
        MaterialNotFound: the material is gone.
        LeaseLost: the run is not the current one any more.
    """
    statement = live(material_id, asr_version).values(
        asr_progress=func.greatest(live_materials.c.asr_progress, progress)
    )
    if (await session.execute(statement.returning(live_materials.c.id))).one_or_none() is None:
        await repository_material.get(session, material_id)
        raise lease_lost(material_id, asr_version)


async def part_indices(session: AsyncSession, material_id: UUID) -> Sequence[int]:
    """Read the indices of the kept parts, ascending."""
    query = select(transcript_parts.c.part).where(transcript_parts.c.material_id == material_id)
    return (await session.execute(query.order_by(transcript_parts.c.part))).scalars().all()


async def get_part(session: AsyncSession, material_id: UUID, part: int) -> Row[Any] | None:
    """Read one kept part; None when it is gone."""
    query = select(transcript_parts).where(
        transcript_parts.c.material_id == material_id, transcript_parts.c.part == part
    )
    return (await session.execute(query)).one_or_none()


async def save_part(session: AsyncSession, values: dict[str, Any]) -> None:
    """Keep one chunk's result, replacing one of the same index. The caller holds `lock_live`."""
    statement = upsert(transcript_parts).values(values)
    replaced = {name: statement.excluded[name] for name in values if name not in {"material_id", "part"}}
    await session.execute(
        statement.on_conflict_do_update(
            index_elements=["material_id", "part"], set_=replaced | {"created_at": func.now()}
        )
    )


async def complete(
    session: AsyncSession,
    material_id: UUID,
    asr_version: int,
    result: dict[str, Any],
    transcript: dict[str, Any],
) -> bool:
    """Turn the run completed and store its transcript in place of the old one; paragraphs follow separately.

    `result` are columns of the material, `transcript` columns of transcripts. False when this run has
    completed already: nothing is written then.

    Raises:
        MaterialNotFound: the material is gone.
        LeaseLost: the run is not the current one any more.
    """
    statement = live(material_id, asr_version).values(
        **result,
        asr_status=AsrStatus.COMPLETED,
        asr_progress=100,
        asr_error_reason="",
        asr_error="",
        cancel_requested=False,
        updated_at=func.now(),
    )
    if (await session.execute(statement.returning(live_materials.c.id))).one_or_none() is None:
        row = await repository_material.get(session, material_id)
        if row.asr_status == AsrStatus.COMPLETED and row.asr_version == asr_version:
            return False
        raise lease_lost(material_id, asr_version)
    await session.execute(delete(transcripts).where(transcripts.c.material_id == material_id))
    await session.execute(
        insert(transcripts).values(material_id=material_id, asr_version=asr_version, **transcript)
    )
    return True


async def add_paragraphs(
    session: AsyncSession, material_id: UUID, paragraphs: Sequence[dict[str, Any]]
) -> None:
    """Store a new transcript's paragraphs."""
    rows = [{"material_id": material_id, **paragraph} for paragraph in paragraphs]
    await session.execute(insert(transcript_paragraphs), rows)


async def fail(
    session: AsyncSession, material_id: UUID, asr_version: int, values: dict[str, Any], *, retryable: bool
) -> None:
    """Store a failure: reason, message and the progress reached (`values`); parts are kept.

    A retryable one leaves the state to the task's end, which decides between another try and failed. A repeat
    of the failure that ended this run changes nothing.

    Raises:
        MaterialNotFound: the material is gone.
        LeaseLost: the run is not the current one any more.
    """
    written: dict[str, Any] = {
        "asr_error_reason": values["reason"],
        "asr_error": cut_message(values["message"]),
        "asr_progress": func.greatest(live_materials.c.asr_progress, values["progress"]),
        "updated_at": func.now(),
    }
    if not retryable:
        written |= {"asr_status": AsrStatus.FAILED, "cancel_requested": False}
    statement = live(material_id, asr_version).values(written).returning(live_materials.c.id)
    if (await session.execute(statement)).one_or_none() is None:
        row = await repository_material.get(session, material_id)
        if row.asr_status != AsrStatus.FAILED or row.asr_version != asr_version:
            raise lease_lost(material_id, asr_version)
