"""A handler starts only on a lease that holds, however long the claim's answer was under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from frontrow.task.v1 import task_service_pb2 as pb
from frontrow.task.v1 import work_pb2
from frontrow.worker import Completed, Outcome, Run, runs
from frontrow.worker.dispatch import Dispatcher
from frontrow.worker.leases import LeaseBook

from tests.unit.worker.support import PlayedBeats, a_task, dispatcher_of, settled

LEASE_SECONDS = 60.0


class _OneClaim:
    """Answers the first claim when told to, and no other."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[pb.ClaimTasksResponse] = asyncio.get_running_loop().create_future()
        self.claims = 0
        self.finished: list[work_pb2.FinishItem] = []

    def claim(self, count: int, *, wait_seconds: float) -> Any:
        self.claims += 1
        return self.answer if self.claims == 1 else asyncio.get_running_loop().create_future()

    async def finish_and_claim(self, items: Any, count: int) -> pb.ClaimTasksResponse:
        self.finished += items
        return pb.ClaimTasksResponse(
            finish_results=[work_pb2.FinishResult(task_id=item.task_id) for item in items]
        )


class _Book(LeaseBook):
    """Remembers every run it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[Run] = []

    def add(self, run: Run) -> None:
        self.noted.append(run)
        super().add(run)


class _Case:
    """A claim under way, on a clock the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        monkeypatch.setattr(runs, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.calls, self.beats, self.book = _OneClaim(), PlayedBeats(), _Book()
        self.started: list[str] = []
        self.dispatcher: Dispatcher = dispatcher_of(
            self.calls, self.beats, self._handle, slots=1, book=self.book
        )

    async def _handle(self, run: Run) -> Outcome:
        self.started.append(run.task_id)
        return Completed()

    async def answered(self, meanwhile: Callable[[_Case], None]) -> Run:
        """Let the answer come after what happens meanwhile; return the run."""
        self.dispatcher.wake()
        await settled()
        meanwhile(self)
        self.calls.answer.set_result(
            pb.ClaimTasksResponse(tasks=[a_task("one", lease_seconds=LEASE_SECONDS)])
        )
        await settled()
        return self.book.noted[0]


@pytest.fixture
async def case(monkeypatch: pytest.MonkeyPatch) -> _Case:
    return _Case(monkeypatch)


def _half_a_lease_passes(case: _Case) -> None:
    case.now += LEASE_SECONDS / 2 + 0.1


def _two_beats_begin(case: _Case) -> None:
    case.beats.begun += 2


def _a_little_happens(case: _Case) -> None:
    case.now += LEASE_SECONDS / 2 - 0.1
    case.beats.begun += 1


LATE = pytest.mark.parametrize("meanwhile", [_half_a_lease_passes, _two_beats_begin])


async def test_an_answer_in_time_starts_the_handler_at_once(case: _Case) -> None:
    await case.answered(_a_little_happens)
    assert (case.started, case.beats.wanted_now) == (["one"], 0)


@LATE
async def test_a_late_answer_starts_the_handler_only_when_a_beat_says_that_the_lease_holds(
    case: _Case, meanwhile: Callable[[_Case], None]
) -> None:
    run = await case.answered(meanwhile)
    assert (case.started, case.beats.wanted_now, case.calls.claims) == ([], 1, 1)
    case.dispatcher.confirm(run)
    await settled()
    assert case.started == ["one"]


@LATE
async def test_a_late_answer_about_a_lease_that_is_over_starts_nothing_and_frees_the_slot(
    case: _Case, meanwhile: Callable[[_Case], None]
) -> None:
    run = await case.answered(meanwhile)
    case.dispatcher.lose(run)
    await settled()
    assert (case.started, case.calls.finished, len(case.book), case.calls.claims) == ([], [], 0, 2)
    case.dispatcher.confirm(run)
    await settled()
    assert case.started == []


@LATE
async def test_a_stop_gives_back_what_still_waits_for_that_word(
    case: _Case, meanwhile: Callable[[_Case], None]
) -> None:
    await case.answered(meanwhile)
    await case.dispatcher.drain(4)
    assert case.started == []
    assert [(item.task_id, item.WhichOneof("end")) for item in case.calls.finished] == [("one", "released")]
