"""SQL that removes a material with everything below it. Takes the session first and never commits."""

from uuid import UUID

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from services.asr import repository_material
from services.asr.errors import MaterialBusy
from services.asr.models import live_materials, uploads, video_projects
from services.asr.repository_draft import unfinished_drafts
from services.asr.repository_project import stored_prefixes
from services.asr.states import AsrStatus


async def remove_material(session: AsyncSession, material_id: UUID) -> list[tuple[str, UUID]]:
    """Delete a material with its transcript, projects and clips, and doom its objects (domain.md 2.9).

    Returns (subject, task id) of the pending tasks that are to be cancelled.

    Raises:
        MaterialNotFound: there is none.
        MaterialBusy: a run on it, or on one of its projects, is on.
    """
    row = await repository_material.get(session, material_id, for_update=True)
    query = select(video_projects.c.id, video_projects.c.status, video_projects.c.slice_task_id)
    mine = query.where(video_projects.c.live_material_id == material_id).with_for_update()
    projects = (await session.execute(mine)).all()
    drafts = await unfinished_drafts(session, [project.id for project in projects])
    running = [f"video project {project.id}" for project in projects if project.status == "processing"]
    running += [f"editing draft {draft.id}" for draft in drafts if draft.draft_status == "processing"]
    if row.asr_status == AsrStatus.PROCESSING:
        running.insert(0, "the transcription")
    if running:
        raise MaterialBusy(f"{running[0]} is running; cancel it first, or wait until it has ended")
    pending = [
        (f"video_project:{project.id}", project.slice_task_id)
        for project in projects
        if project.status == "pending"
    ]
    pending += [
        (f"editing_draft:{draft.id}", draft.draft_task_id)
        for draft in drafts
        if draft.draft_status == "pending"
    ]
    if row.asr_status == AsrStatus.PENDING:
        pending.append((f"live_material:{row.id}", row.asr_task_id))
    await session.execute(delete(live_materials).where(live_materials.c.id == row.id))
    await session.execute(delete(uploads).where(uploads.c.id == row.upload_id))
    prefixes = [f"recordings/{row.upload_id}/", f"recordings/{row.id}/", f"staging/asr/{row.id}/"]
    prefixes.append(f"uploads/{row.upload_id}/")  # pieces of a recording that no run has fetched whole
    prefixes += [prefix for project in projects for prefix in stored_prefixes(project.id)]
    await repository_material.doom(session, prefixes)
    return pending
