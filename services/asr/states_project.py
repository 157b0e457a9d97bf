"""States of a video project and of an editing draft; the repositories' WHERE clauses enforce them again."""

import enum


class ProjectStatus(enum.StrEnum):
    """State of a video project, or of an editing draft (domain.md 2.10)."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


# Begin: pending, processing (a newer version of the task) and failed (its task was retried) -> processing.
PROJECT_TRANSITIONS: dict[ProjectStatus, frozenset[ProjectStatus]] = {
    ProjectStatus.PENDING: frozenset({ProjectStatus.PENDING, ProjectStatus.PROCESSING, ProjectStatus.FAILED}),
    ProjectStatus.PROCESSING: frozenset(ProjectStatus),
    ProjectStatus.FAILED: frozenset({ProjectStatus.PENDING, ProjectStatus.PROCESSING}),
    ProjectStatus.COMPLETED: frozenset(),
}
BEGINNABLE = tuple(s for s, to in PROJECT_TRANSITIONS.items() if ProjectStatus.PROCESSING in to)

# Types of tasks; a project's mode is the type of its task.
AI_SLICE, AI_SLICE_DRAFT, DRAFT = "ai_slice", "ai_slice_draft", "draft"
PROJECT_TASKS = (AI_SLICE, AI_SLICE_DRAFT)
