"""SQL that dooms what transcription runs stored and no row refers to.

Every function takes the session first and never commits.
"""

from collections.abc import Iterable
from uuid import UUID

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from services.asr import repository_material
from services.asr.models import debug_runs, doomed_objects, live_materials
from services.asr.stored_names import canonical_key, fetched_key, of_material

# A slicing run may have begun with the file of the result before, and a person may be reading it.
_REPLACED_KEPT_HOURS = 24


async def doom_of_earlier_runs(session: AsyncSession, material_id: UUID, asr_version: int) -> None:
    """Doom what earlier runs that brought no result stored, but for what the material refers to.

    Such a run is dead or refused from now on; what it still writes goes in one of the removal's later passes.
    """
    query = select(debug_runs.c.asr_version).where(
        debug_runs.c.material_id == material_id,
        debug_runs.c.asr_version < asr_version,
        debug_runs.c.outcome != "completed",
    )
    await doom_of_runs(session, material_id, (await session.execute(query)).scalars())


async def doom_of_runs(session: AsyncSession, material_id: UUID, versions: Iterable[int]) -> None:
    """Doom what these runs stored, but for what the material refers to. None of them may go on."""
    columns = live_materials.c.upload_id, live_materials.c.media_key, live_materials.c.canonical_key
    row = (await session.execute(select(*columns).where(live_materials.c.id == material_id))).one_or_none()
    if row is None:
        return
    stored = {
        key
        for version in versions
        for key in (canonical_key(material_id, version), fetched_key(row.upload_id, version))
    }
    await repository_material.doom(session, sorted(stored - {row.media_key, row.canonical_key}))


async def replaced(session: AsyncSession, material_id: UUID, before: str, now: str) -> None:
    """Doom the canonical file of the result before, in a day; `before` and `now` are object keys.

    Nothing else than a material's own is doomed.
    """
    # workers of older releases name the file by the material alone, and so come back to a name
    await session.execute(delete(doomed_objects).where(doomed_objects.c.key == now))
    if before == now or not before.startswith(of_material(material_id)):
        return
    later = func.now() + func.make_interval(0, 0, 0, 0, _REPLACED_KEPT_HOURS)
    statement = upsert(doomed_objects).values(key=before, not_before=later)
    await session.execute(statement.on_conflict_do_nothing(index_elements=["key"]))
