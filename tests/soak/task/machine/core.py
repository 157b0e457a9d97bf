"""What every rule stands on: the rig, the model, and the comparison of the two after each step."""

from __future__ import annotations

import datetime
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar
from uuid import UUID, uuid5

import asyncpg
import grpc.aio
from frontrow.task.v1 import task_pb2, work_pb2
from google.protobuf import duration_pb2, struct_pb2
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant

from libs.common.client import error_info
from services.task.models import LEVELS
from tests.integration.task.service import Tasks
from tests.soak.task.model import Model
from tests.soak.task.rig import SERVERS, Rig, State
from tests.soak.task.terms import TERMINAL, End, ModelTask, Policy, Run

T = TypeVar("T")
Item = TypeVar("Item")

WORKERS = 3
TYPES = ("quick", "slow")
_IDS = UUID("6f1d6a3e-7f0b-4c58-9d55-2f2f7d1c9e10")
_COMPARED = ("type", "status", "version", "attempts", "max_attempts", "priority", "progress")
_POLICY = ("paused", "concurrency_limit", "lease_seconds", "stall_seconds", "max_attempts")
_FROZEN = (*_COMPARED, "ext", "error_message", "status_reason", "draft_url", "video_url", "clips_url")

picks = st.integers(0, 63)
servers = st.integers(0, SERVERS - 1)
workers = st.integers(0, WORKERS - 1)
type_names = st.sampled_from(TYPES)
type_sets = st.sampled_from([("quick",), ("slow",), TYPES])
percents = st.none() | st.sampled_from([0, 1, 30, 60, 100])
ends = st.builds(
    End,
    said=st.sampled_from(["completed", "completed", "failed", "failed", "released"]),
    progress=percents,
    message=st.sampled_from(["", "broken", "利率 " * 50]),
    retryable=st.booleans(),
    pause=st.sampled_from([0, 0, 50, 150]),
    ext=st.none() | st.integers(0, 9),
)


class Core(RuleBasedStateMachine):
    """One example: an empty queue, some workers, and what they know.

    No rule has a precondition, since what it would look at may depend on a race: then the same example, run
    again, would be another one. A rule that finds nothing to act on does nothing.
    """

    rig: Rig

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.workers = [f"worker-{number}" for number in range(WORKERS)]
        self.held: list[list[Run]] = [[] for _ in range(WORKERS)]
        self.runs: list[Run] = []
        self._numbers = itertools.count()
        self._seen: dict[UUID, tuple[int, str, tuple[Any, ...]]] = {}
        self.run(self.rig.begin())

    def run(self, work: Awaitable[T]) -> T:
        """Do some work in the rig's loop."""

        async def do() -> T:
            return await work

        return self.rig.run(do())

    def client(self, server: int) -> Tasks:
        """Return a client of one of the servers."""
        return self.rig.clients[server]

    def call(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call; again as long as the answer is that the database was away."""

        async def patiently() -> T:
            while True:
                try:
                    return await call()
                except grpc.aio.AioRpcError as error:
                    if error_info(error).reason != "DATABASE_UNAVAILABLE":
                        raise

        return self.rig.run(patiently())

    def finish_all(self, server: int, items: Sequence[tuple[Run, End]]) -> list[str]:
        """End runs; return the outcomes."""
        given = [finish_item(run, end) for run, end in items]
        return self.call(lambda: self.client(server).finish(*given))

    def refused(self, call: Callable[[], Awaitable[object]]) -> tuple[str, str, dict[str, str]]:
        """Make a call that must fail; return code, reason and metadata."""
        try:
            answer = self.call(call)
        except grpc.aio.AioRpcError as error:
            told = error_info(error)
            return error.code().name, told.reason, dict(told.metadata)
        raise AssertionError(f"should have been refused; was answered {answer}")

    def new_id(self) -> UUID:
        """Return an id that is the same whenever this example is run again."""
        return uuid5(_IDS, str(next(self._numbers)))

    def some_task(self, pick: int) -> ModelTask:
        """Return one of the tasks."""
        return pick_of(list(self.model.tasks.values()), pick)

    def some_run(self, pick: int) -> Run:
        """Return one of all runs ever handed out, over or not; now and then one that never was."""
        if not self.runs or pick == 63:
            return Run(self.new_id(), 1)
        return pick_of(self.runs, pick)

    def handed_out(self, worker: int, tasks: Sequence[task_pb2.Task], *, lost: bool) -> None:
        """Note in the model what a claim brought; `lost`: the worker never heard of it."""
        for task in tasks:
            expected = self.model.tasks[UUID(task.id)]
            assert expected.status == "pending", f"claimed, but it is {expected}"
            self.model.claim(expected, self.workers[worker])
            assert (task.version, task.attempt) == (expected.version, expected.attempts)
            assert task.claimed_by == self.workers[worker]
            lease = task.lease_expire_time.ToNanoseconds() - task.start_time.ToNanoseconds()
            assert lease == self.model.lease(task.type) * 1_000_000_000
            run = Run(expected.task_id, expected.version)
            self.runs.append(run)
            if not lost:
                self.held[worker].append(run)

    @invariant()
    def database_is_as_the_model_says(self) -> None:
        """Compare every task and every record of a run."""
        self.rig.steps += 1
        state = self.run(self.rig.look())
        self._seen = {row["id"]: self._seen[row["id"]] for row in state.tasks if row["id"] in self._seen}
        for row in state.tasks:
            self._never_goes_back(row)
        compare(self.model, state)

    def _never_goes_back(self, row: asyncpg.Record) -> None:
        """Check what holds whatever the model says: versions rise with each status, ends stand."""
        now = (row["version"], row["status"], tuple(row[name] for name in _FROZEN))
        before = self._seen.get(row["id"])
        self._seen[row["id"]] = now
        if before is None or before == now:
            return
        assert now[0] >= before[0], f"the version went back: {before} {now}"
        assert now[0] > before[0] or now[1] == before[1], f"the status changed at one version: {before} {now}"
        if before[1] in TERMINAL:
            assert before[1] != "completed", f"a completed task changed: {before} {now}"
            assert now[0] > before[0], f"a finished task changed: {before} {now}"


def compare(model: Model, state: State) -> None:
    """Check that tasks, records of runs and counters stand as the model says."""
    assert {row["id"] for row in state.tasks} == set(model.tasks), "a task was lost, or made twice"
    for row in state.tasks:
        _compare_task(row, model.tasks[row["id"]])
    kept = {
        (row["task_id"], row["version"]): (row["worker_id"], row["outcome"].upper(), row["reason"])
        for row in state.runs
    }
    assert kept == {
        (task.task_id, version): (record.worker, record.outcome, record.reason)
        for task in model.tasks.values()
        for version, record in task.records.items()
    }
    for kind in TYPES:
        counted = Counter(task.status for task in model.tasks.values() if task.type == kind)
        shown = state.counts.get(kind, {})
        assert {level: shown.get(level, 0) for level in LEVELS} == {level: counted[level] for level in LEVELS}
    for kind, policy in state.policies.items():
        stored = Policy(*(policy[name] for name in _POLICY))
        assert stored == model.policies[kind]
        assert policy["running"] == model.running(kind), "the count of a limited type's runs is wrong"


def _compare_task(row: asyncpg.Record, task: ModelTask) -> None:
    if row["due_at"] is None and task.due is not None and task.due[1] - task.due[0] > 0:
        task.due = None  # the draw of its pause was a short one
    shown: dict[str, object] = {name: row[name] for name in _COMPARED}
    shown |= {
        "worker": row["claimed_by"],
        "cancel_requested": row["cancel_requested_at"] is not None,
        "reason": row["status_reason"],
        "message": row["error_message"],
        "ext": row["ext"],
        "urls": {name: row[name] for name in ("draft_url", "video_url", "clips_url") if row[name]},
        "over": row["completed_at"] is not None,
        "delayed": row["due_at"] is not None,
    }
    wanted: dict[str, object] = {name: getattr(task, name) for name in _COMPARED}
    wanted |= {
        "worker": task.worker,
        "cancel_requested": task.cancel_requested,
        "reason": task.reason,
        "message": shown["message"] if task.message == "lost" else task.message,
        "ext": b"" if task.ext is None else _struct(task.ext).SerializeToString(deterministic=True),
        "urls": task.urls,
        "over": task.status in TERMINAL,
        "delayed": task.due is not None,
    }
    assert shown == wanted, f"task {task.task_id}"


def pick_of(items: Sequence[Item], pick: int) -> Item:
    """Return one of the items."""
    return items[pick % len(items)]


def finish_item(run: Run, end: End) -> work_pb2.FinishItem:
    """Return the wire's word for the end of a run."""
    item = work_pb2.FinishItem(task_id=str(run.task_id), version=run.version)
    if end.said == "completed":
        ext = None if end.ext is None else _struct(end.ext)
        item.completed.CopyFrom(work_pb2.RunCompleted(progress=end.progress, ext=ext))
    elif end.said == "failed":
        item.failed.CopyFrom(
            work_pb2.RunFailed(message=end.message, retryable=end.retryable, progress=end.progress)
        )
    else:
        pause = duration_pb2.Duration()
        pause.FromTimedelta(datetime.timedelta(seconds=end.pause))
        item.released.CopyFrom(work_pb2.RunReleased(run_after=pause if end.pause else None))
    return item


def said_only(end: End) -> End:
    """Return the end with only what this kind of word carries."""
    if end.said == "completed":
        return End("completed", progress=end.progress, ext=end.ext)
    if end.said == "failed":
        return End("failed", progress=end.progress, message=end.message, retryable=end.retryable)
    return End("released", pause=end.pause)


def _struct(number: int) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    struct.update({"n": number})
    return struct
