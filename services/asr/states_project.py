"""States of a video project; the repository's WHERE clauses enforce the transitions again."""

import enum


class ProjectStatus(enum.StrEnum):
    """State of a video project (domain.md 2.10)."""

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
