"""What the queue must do, in plain Python: one dict of tasks, one clock, no concurrency (domain.md 1).

Times are in virtual seconds: real ones plus every step of the clock taken so far.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from tests.soak.task.terms import (
    ATTEMPTS,
    BACKOFF,
    KEEP,
    LEASES,
    LONGEST_GAP,
    LOST_CLAIM,
    READ_BY_ALL,
    STALLS,
    TERMINAL,
    End,
    Lost,
    ModelTask,
    Policy,
    Record,
    Run,
)


class Model:
    """The queue. Every method changes it as the service must, and returns what the service must answer."""

    def __init__(self) -> None:
        self.now = 0.0
        self.tasks: dict[UUID, ModelTask] = {}
        self._sequence = itertools.count()
        self.policies: dict[str, Policy] = {}
        # type -> the longer lease that was told, and until when a sweep goes by it
        self.told: dict[str, tuple[int, float]] = {}
        self.listened_since = 0.0
        self.listened_last: float | None = None
        self._jumped = False

    def policy(self, task_type: str) -> Policy:
        """Return what was set for a type."""
        return self.policies.get(task_type, Policy())

    def set_policy(self, task_type: str, changes: Mapping[str, int]) -> None:
        """Change fields of a type's policy; a longer lease that workers were told holds for a while."""
        before = self.lease(task_type)
        self.policies[task_type] = Policy(**{**self.policy(task_type)._asdict(), **changes})
        if before > self.lease(task_type):
            lease = max(before, self.lost_after(task_type))
            self.told[task_type] = (lease, self.now + lease + READ_BY_ALL)

    def lease(self, task_type: str) -> int:
        """Return the lease that workers of this type are told."""
        return self.policy(task_type).lease or LEASES[task_type]

    def lost_after(self, task_type: str) -> int:
        """Return the silence after which a run of this type counts as lost."""
        told, until = self.told.get(task_type, (0, 0.0))
        return max(self.lease(task_type), told if self.now < until else 0)

    def stall(self, task_type: str) -> int:
        """Return the time without progress after which a run of this type counts as stuck."""
        return self.policy(task_type).stall or STALLS[task_type]

    def create(self, wanted: Iterable[tuple[UUID, str, int, int, int]]) -> None:
        """Add tasks of one statement: (id, type, max_attempts or 0, priority, pause)."""
        place = next(self._sequence)
        for task_id, task_type, max_attempts, priority, pause in wanted:
            due = (self.now + pause, self.now + pause) if pause else None
            order = (-priority, place)
            most = max_attempts or self.policy(task_type).attempts or ATTEMPTS
            self.tasks[task_id] = ModelTask(task_id, task_type, most, priority, order, due=due)

    def live(self, run: Run) -> ModelTask | None:
        """Return the task while this run of it is live."""
        task = self.tasks.get(run.task_id)
        return task if task is not None and task.run == run else None

    def claimable(self, types: Sequence[str]) -> list[ModelTask]:
        """Return what is due, in order; without what may or may not be due, and whatever the policies say."""
        ready = [task for task in self.tasks.values() if task.status == "pending" and task.type in types]
        return sorted((task for task in ready if task.due is None), key=_place)

    def perhaps_claimable(self, types: Sequence[str]) -> list[ModelTask]:
        """Return what is due if the draw of its pause was a short one."""
        ready = [task for task in self.tasks.values() if task.status == "pending" and task.type in types]
        return [task for task in ready if task.due is not None and task.due[0] <= self.now]

    def running(self, task_type: str) -> int:
        """Return how many runs of a type are live."""
        return sum(task.worker is not None for task in self.tasks.values() if task.type == task_type)

    def let_through(self, due: Iterable[ModelTask], count: int) -> list[ModelTask]:
        """Return the first `count` of what is due, in order, as pauses and limits let them through."""
        rooms: dict[str, float] = {}
        for task_type, policy in self.policies.items():
            free = max(0, policy.limit - self.running(task_type)) if policy.limit else math.inf
            rooms[task_type] = 0 if policy.paused else free
        chosen: list[ModelTask] = []
        for task in sorted(due, key=_place):
            room = rooms.get(task.type, math.inf)
            if room > 0 and len(chosen) < count:
                rooms[task.type] = room - 1
                chosen.append(task)
        return chosen

    def claim(self, task: ModelTask, worker: str) -> None:
        """Hand a pending task to a worker."""
        task.status, task.version, task.attempts = "processing", task.version + 1, task.attempts + 1
        task.worker, task.absent, task.due = worker, 0, None
        task.started = task.heard = task.rose = self.now
        task.progress, task.message, task.reason, task.ext = 0, "", "", None

    def beat(self, worker: str, named: Sequence[tuple[Run, int | None]]) -> list[tuple[str, bool]]:
        """Renew what is live; give back what the worker did not name twice. Returns (outcome, cancel)."""
        answers = self._renew(named)
        for task in self._unnamed(worker, named):
            if self.now - task.started > LOST_CLAIM:
                task.absent += 1
                if task.absent >= 2:
                    self.give_back(task)
        return answers

    def leave(self, worker: str, named: Sequence[tuple[Run, int | None]]) -> list[tuple[str, bool]]:
        """Take a worker's last beat: renew what it names, give back the rest. Returns (outcome, cancel)."""
        answers = self._renew(named)
        for task in self._unnamed(worker, named):
            self.give_back(task)
        return answers

    def _unnamed(self, worker: str, named: Sequence[tuple[Run, int | None]]) -> list[ModelTask]:
        runs = {run for run, _ in named}
        return [task for task in self.tasks.values() if task.worker == worker and task.run not in runs]

    def _renew(self, named: Sequence[tuple[Run, int | None]]) -> list[tuple[str, bool]]:
        answers = []
        for run, progress in named:
            task = self.live(run)
            if task is None:
                answers.append(("LEASE_LOST" if run.task_id in self.tasks else "NOT_FOUND", False))
                continue
            task.heard, task.absent = self.now, 0
            if progress is not None and progress > task.progress:
                task.progress, task.rose = progress, self.now
            answers.append(("RENEWED", task.cancel_requested))
        return answers

    def give_back(self, task: ModelTask) -> None:
        """End a run whose worker never heard of it, uncharged."""
        self._end(task, End("released"), said=None, reason="REPLY_LOST")

    def finish(self, run: Run, end: End) -> str:
        """End a run by its worker's word; a repeat gets the first answer, any other late word LEASE_LOST."""
        task = self.live(run)
        if task is not None:
            reason = {"completed": "", "failed": "RETRY", "released": "RELEASED"}[end.said]
            return self._end(task, end, said=end.said, reason=reason)
        if run.task_id not in self.tasks:
            return "NOT_FOUND"
        record = self.tasks[run.task_id].records.get(run.version)
        return record.outcome if record is not None and record.said == end.said else "LEASE_LOST"

    def _end(self, task: ModelTask, end: End, *, said: str | None, reason: str) -> str:
        again = end.said == "released" or (end.retryable and task.attempts < task.max_attempts)
        status = "completed" if end.said == "completed" else "pending" if again else "failed"
        if task.cancel_requested:
            status = "cancelled"
        outcome = {"completed": "APPLIED", "pending": "REQUEUED", "failed": "FAILED"}.get(status, "CANCELLED")
        assert task.worker is not None
        task.reason = {"completed": "", "pending": reason, "failed": "FAILED"}.get(status, "CANCELLED")
        # The server's own ends keep their reason, whatever became of the task.
        task.records[task.version] = Record(task.worker, said, outcome, task.reason if said else reason)
        if status == "pending":
            task.progress = 0
            if end.said == "released":
                task.attempts -= 1
                task.due = (self.now + end.pause, self.now + end.pause) if end.pause else None
            else:
                task.due = (self.now, self.now + BACKOFF)
        elif status == "completed":
            task.progress = max(task.progress, 100 if end.progress is None else end.progress)
            task.ext = end.ext
        else:
            task.progress = max(task.progress, end.progress or 0)
        task.message = end.message
        task.status, task.version, task.worker = status, task.version + 1, None
        task.over = self.now if status in TERMINAL else None
        return outcome

    def lose(self, task: ModelTask, why: Lost) -> str:
        """End a run of which nobody has heard, or which is stuck."""
        assert task.worker is not None
        gone = task.attempts >= task.max_attempts
        status = "cancelled" if task.cancel_requested else "failed" if gone else "pending"
        task.records[task.version] = Record(
            task.worker, None, {"pending": "REQUEUED"}.get(status, status.upper()), why
        )
        task.reason = {"pending": why, "failed": "ABANDONED"}.get(status, "CANCELLED")
        if status == "pending":
            task.progress = 0
        task.status, task.version, task.worker = status, task.version + 1, None
        task.over = self.now if status in TERMINAL else None
        task.message = "lost"
        return status

    def requeue(self, task_type: str, older_than: float) -> tuple[int, int]:
        """Take back silent runs of a type; returns how many are pending and how many failed."""
        silent = [
            task
            for task in self.tasks.values()
            if task.type == task_type and task.worker is not None and self.now - task.heard > older_than
        ]
        ends = [self.lose(task, "STALE") for task in silent]
        return ends.count("pending"), ends.count("failed")

    def listen_anew(self) -> None:
        """Begin to listen: a server that just started has heard nobody yet."""
        self.listened_since, self.listened_last, self._jumped = self.now, None, False

    def sweep(self) -> None:
        """Take back runs silent for a lease, or stuck for a stall limit, for which the sweeper listened."""
        gap = 0 if self.listened_last is None else self.now - self.listened_last
        if gap > LONGEST_GAP or self._jumped:
            self.listened_since = self.now
        self.listened_last, self._jumped = self.now, False
        for task in self.tasks.values():
            lease, stall = self.lost_after(task.type), self.stall(task.type)
            listened = self.now - self.listened_since
            if task.worker is None or listened < lease:
                continue
            if self.now - task.heard > lease:
                self.lose(task, "STALE")
            elif self.now - task.rose > stall and listened >= stall:
                self.lose(task, "STALLED")

    def advance(self, seconds: float) -> None:
        """Let time pass; pauses that are over for certain end."""
        self.now += seconds
        for task in self.tasks.values():
            if task.due is not None and task.due[1] <= self.now:
                task.due = None

    def jump(self, seconds: float) -> None:
        """Let the database's clock jump: the sweeper, whose own clock doesn't, must begin to listen anew."""
        self.advance(seconds)
        self.listened_since += seconds
        if self.listened_last is not None:
            self.listened_last += seconds
            self._jumped = True

    def retain(self) -> list[UUID]:
        """Forget what has been finished for longer than it is kept; return the ids."""
        old = [
            task.task_id
            for task in self.tasks.values()
            if task.over is not None and self.now - task.over > KEEP
        ]
        for task_id in old:
            del self.tasks[task_id]
        return old

    def why_idle(self, types: Sequence[str]) -> str:
        """Return why a claim of these types comes back empty."""
        if any(self.policy(task.type).paused for task in self.claimable(types)):
            return "PAUSED"
        if self.claimable(types):
            return "LIMIT"
        waiting = [task for task in self.tasks.values() if task.status == "pending" and task.type in types]
        return "DUE_LATER" if waiting else "EMPTY"

    def cancel(self, task: ModelTask) -> bool:
        """Cancel; returns False when the task is over."""
        if task.status in TERMINAL:
            return False
        if task.status == "pending":
            task.status, task.version, task.reason = "cancelled", task.version + 1, "CANCELLED"
            task.due, task.over = None, self.now
        task.cancel_requested = True
        return True

    def retry(self, task: ModelTask) -> bool:
        """Put a failed or cancelled task back; returns False for any other."""
        if task.status not in {"failed", "cancelled"}:
            return False
        task.status, task.version, task.attempts, task.progress = "pending", task.version + 1, 0, 0
        task.reason, task.message, task.ext, task.urls, task.due = "", "", None, {}, None
        task.cancel_requested, task.over = False, None
        task.order = (-task.priority, next(self._sequence))
        return True


def _place(task: ModelTask) -> tuple[tuple[int, int], UUID]:
    return task.order, task.task_id
