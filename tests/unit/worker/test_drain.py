"""A worker that stops gives back the tasks of a claim whose answer was under way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest
from frontrow.task.v1 import task_pb2, task_service_pb2, work_pb2
from frontrow.worker import Completed, Outcome, Run, dispatch
from frontrow.worker.beats import BeatThread
from frontrow.worker.calls import Calls
from frontrow.worker.dispatch import Dispatcher, Limits
from frontrow.worker.leases import LeaseBook


class _Calls:
    """A task service whose claims are answered by the test."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answer: asyncio.Future[task_service_pb2.ClaimTasksResponse] = (
            asyncio.get_running_loop().create_future()
        )
        self.finished: list[work_pb2.FinishItem] = []

    def claim(self, count: int, *, wait_seconds: float) -> Any:
        self.asked.set()
        return self.answer

    async def finish_and_claim(
        self, items: Sequence[work_pb2.FinishItem], count: int
    ) -> task_service_pb2.ClaimTasksResponse:
        self.finished += items
        return task_service_pb2.ClaimTasksResponse(
            finish_results=[work_pb2.FinishResult(task_id=item.task_id) for item in items]
        )


class _NoBeats:
    begun = 0

    def step(self) -> None: ...

    def claim_lost(self) -> None: ...


async def _done(_run: Run) -> Outcome:
    return Completed()


async def _asking(calls: _Calls) -> Dispatcher:
    """Return a dispatcher whose claim is under way."""
    dispatcher = Dispatcher(
        cast(Calls, calls),
        LeaseBook(),
        cast(BeatThread, _NoBeats()),
        handler=_done,
        limits=Limits(1, 30.0, 3.0, None),
        on_serving=lambda _: None,
    )
    dispatcher.wake()
    await calls.asked.wait()
    return dispatcher


_ONE = task_service_pb2.ClaimTasksResponse(tasks=[task_pb2.Task(id="one", version=1)])


async def test_a_claim_that_was_just_sent_may_bring_its_answer() -> None:
    calls = _Calls()
    dispatcher = await _asking(calls)
    draining = asyncio.ensure_future(dispatcher.drain(4))
    await asyncio.wait({draining}, timeout=0.1)
    calls.answer.set_result(_ONE)
    await draining
    assert [(item.task_id, item.WhichOneof("end")) for item in calls.finished] == [("one", "released")]


async def test_an_answer_that_arrives_in_the_moment_of_the_stop_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatch, "ANSWER_SECONDS", 0.0, raising=False)
    calls = _Calls()
    dispatcher = await _asking(calls)
    calls.answer.set_result(_ONE)
    await dispatcher.drain(4)
    assert [(item.task_id, item.WhichOneof("end")) for item in calls.finished] == [("one", "released")]


async def test_a_claim_that_waits_is_ended_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "ANSWER_SECONDS", 0.0, raising=False)
    calls = _Calls()
    dispatcher = await _asking(calls)
    async with asyncio.timeout(1):
        await dispatcher.drain(4)
    assert calls.answer.cancelled()
