"""What holds for the tasks of a type: lease, stall limit, attempts. A person's policy beats the settings."""

from __future__ import annotations

from collections.abc import Mapping

from services.task.repository_queue import Policy
from services.task.settings import TaskSettings

_NO_POLICY = Policy()


class TypeLimits:
    """Answers for every type, also one never seen before; `policies` are replaced as they change."""

    def __init__(self, settings: TaskSettings) -> None:
        self._settings = settings
        self._policies: Mapping[str, Policy] = {}

    def set_policies(self, policies: Mapping[str, Policy]) -> bool:
        """Take over what is set now; tell whether anything has changed."""
        before, self._policies = self._policies, dict(policies)
        return self._policies != before

    def policy(self, task_type: str) -> Policy:
        """Return what a person set for a type; all defaults when nobody did."""
        return self._policies.get(task_type, _NO_POLICY)

    @property
    def several_policies(self) -> bool:
        """Whether a transaction can meet two rows of policies, which it must then lock in one order."""
        return len(self._policies) > 1

    @property
    def any_policy(self) -> bool:
        """Whether a policy is set for any type."""
        return bool(self._policies)

    def is_limited(self, task_type: str) -> bool:
        """Tell whether the end of a run of this type makes room for another."""
        return self.policy(task_type).concurrency_limit > 0

    def lease_seconds(self, task_type: str) -> float:
        """Return the lease that a worker is told for a run of this type (domain.md 1.4)."""
        return self.policy(task_type).lease_seconds or self.usual_lease_seconds(task_type)

    def lost_after_seconds(self, task_type: str) -> float:
        """Return the silence after which a run of this type counts as lost (domain.md 1.6).

        That is its lease; the longer one from before a change, until every worker that was told that one must
        have beaten since, or its lease has ended.
        """
        return max(self.lease_seconds(task_type), self.policy(task_type).longer_lease_seconds)

    def usual_lease_seconds(self, task_type: str) -> float:
        """Return the lease of a type whose policy sets none."""
        return self._settings.lease_seconds_by_type.get(task_type, self._settings.lease_seconds)

    def stall_seconds(self, task_type: str) -> float:
        """Return the time without progress after which a run of this type counts as stuck (domain.md 1.6)."""
        by_type = self._settings.stall_seconds_by_type
        return self.policy(task_type).stall_seconds or by_type.get(task_type, self._settings.stall_seconds)

    def max_attempts(self, task_type: str) -> int:
        """Return the runs of a task whose creator named no number (domain.md 1.7)."""
        return self.policy(task_type).max_attempts or self._settings.max_attempts

    def named_types(self) -> list[str]:
        """Return the types with a lease or stall limit of their own."""
        settings = self._settings
        return sorted({*settings.lease_seconds_by_type, *settings.stall_seconds_by_type, *self._policies})

    @property
    def default_lease_seconds(self) -> float:
        """The lease of every other type."""
        return self._settings.lease_seconds

    @property
    def default_stall_seconds(self) -> float:
        """The stall limit of every other type."""
        return self._settings.stall_seconds
