"""What holds for the tasks of a type: lease, stall limit, attempts."""

from __future__ import annotations

from services.task.settings import TaskSettings


class TypeLimits:
    """Answers for every type, also one never seen before."""

    def __init__(self, settings: TaskSettings) -> None:
        self._settings = settings

    def lease_seconds(self, task_type: str) -> float:
        """Return the silence after which a run of this type counts as lost (domain.md 1.6)."""
        return self._settings.lease_seconds_by_type.get(task_type, self._settings.lease_seconds)

    def stall_seconds(self, task_type: str) -> float:
        """Return the time without progress after which a run of this type counts as stuck (domain.md 1.6)."""
        return self._settings.stall_seconds_by_type.get(task_type, self._settings.stall_seconds)

    def max_attempts(self, task_type: str) -> int:
        """Return the runs of a task whose creator named no number (domain.md 1.7)."""
        return self._settings.max_attempts

    def named_types(self) -> list[str]:
        """Return the types with a lease or stall limit of their own."""
        return sorted({*self._settings.lease_seconds_by_type, *self._settings.stall_seconds_by_type})

    @property
    def default_lease_seconds(self) -> float:
        """The lease of every other type."""
        return self._settings.lease_seconds

    @property
    def default_stall_seconds(self) -> float:
        """The stall limit of every other type."""
        return self._settings.stall_seconds
