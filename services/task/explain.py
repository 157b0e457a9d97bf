"""Say why a task isn't running, or what happened to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from services.task.convert import Row
from services.task.repository_queue import MOST_AHEAD
from services.task.states import Status

Kind = Literal["due_later", "paused", "limit", "no_worker", "queued"]


@dataclass(frozen=True)
class Hindrance:
    """One reason, as a fixed word and in words for people."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class Facts:
    """What is known of a task and its queue at the database's time `now`."""

    task: Row
    runs: Sequence[Row]
    earlier_runs: int
    now: datetime
    lease_seconds: float
    paused: bool
    concurrency_limit: int
    running: int
    ahead: int
    workers: int


def hindrances(facts: Facts) -> list[Hindrance]:
    """Return what keeps a pending task from running, the weightiest first; empty for any other task."""
    task = facts.task
    if task["status"] != Status.PENDING:
        return []
    kind = task["type"]
    found: list[Hindrance] = []
    if facts.paused:
        found.append(Hindrance("paused", f"type {kind} is paused, until SetQueuePolicy sets paused to false"))
    if task["due_at"] is not None and task["due_at"] > facts.now:
        wait = _span(task["due_at"] - facts.now)
        found.append(Hindrance("due_later", f"it may not run for another {wait} ({_why_later(task)})"))
    if facts.concurrency_limit and facts.running >= facts.concurrency_limit:
        found.append(
            Hindrance(
                "limit", f"{facts.running} tasks of type {kind} run, its limit is {facts.concurrency_limit}"
            )
        )
    if not facts.workers:
        found.append(
            Hindrance("no_worker", f"no worker that takes type {kind} was heard of in three minutes")
        )
    if facts.ahead:
        many = f"at least {MOST_AHEAD}" if facts.ahead >= MOST_AHEAD else str(facts.ahead)
        found.append(Hindrance("queued", f"{many} tasks of its type are ahead of it"))
    return found


def summary(facts: Facts) -> str:
    """Return the answer in one sentence."""
    task = facts.task
    status = task["status"]
    if status == Status.PENDING:
        reasons = hindrances(facts)
        if reasons:
            return f"It waits: {'; '.join(reason.text for reason in reasons)}."
        return f"It is next in its queue; {facts.workers} workers take its type."
    if status == Status.PROCESSING:
        silence = facts.now - task["heartbeat_at"]
        left = timedelta(seconds=facts.lease_seconds) - silence
        asked = " Somebody asked to cancel it." if task["cancel_requested_at"] is not None else ""
        lease = (
            f"for another {_span(left)}"
            if left > timedelta(0)
            else "no longer: it is taken back once its server has listened for as long as a lease"
        )
        return (
            f"It runs at {task['progress']} % on worker {task['claimed_by']}, attempt {task['attempts']} of "
            f"{task['max_attempts']}, last heard of {_span(silence)} ago; its lease holds {lease}.{asked}"
        )
    count = len(facts.runs) + facts.earlier_runs
    runs = f"{count} run{'' if count == 1 else 's'}"
    when = f"{task['completed_at']:%Y-%m-%d %H:%M:%S} UTC"
    if status == Status.FAILED:
        why = {"ABANDONED": "its workers were lost each time"}.get(task["status_reason"], "it was given up")
        return f"It failed at {when} after {runs}, {why}: {task['error_message'] or 'no message'}."
    return f"It was {status} at {when} after {runs}."


def _why_later(task: Row) -> str:
    reasons = {"RETRY": "back-off after a failure", "RELEASED": "its worker asked for a pause"}
    return reasons.get(task["status_reason"], "its creator asked for it")


def _span(length: timedelta) -> str:
    seconds = max(0.0, length.total_seconds())
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7_200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.1f} h"


def live_run(task: Row) -> dict[str, Any] | None:
    """Return the record of the run that is going on, None when none is."""
    if task["claimed_by"] is None:
        return None
    return {
        "version": task["version"],
        "worker_id": task["claimed_by"],
        "started_at": task["started_at"],
        "ended_at": None,
        "ended_as": "",
        "outcome": "",
        "reason": "",
        "late_writes": 0,
    }
