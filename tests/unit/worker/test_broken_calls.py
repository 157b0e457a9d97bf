"""Runs whose finish could not be sent stay to be sent, whatever broke the call off."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
import pytest
from frontrow.task.v1 import task_service_pb2 as pb
from frontrow.task.v1 import work_pb2
from frontrow.worker import Completed, Outcome, Run
from frontrow.worker.leases import LeaseBook

from tests.unit.worker.support import PlayedBeats, a_task, dispatcher_of, settled


class _Service:
    """Gives its tasks out, then fails the calls that finish as told, the first first; then takes a finish."""

    def __init__(self, *failures: BaseException, tasks: Sequence[str] = ("one",)) -> None:
        self._failures = list(failures)
        self._tasks = tasks
        self._given = False
        self.sent: list[list[str]] = []
        self.finished: list[str] = []
        self.one_by_one = False

    def claim(self, count: int, *, wait_seconds: float) -> Any:
        answer: asyncio.Future[pb.ClaimTasksResponse] = asyncio.get_running_loop().create_future()
        if not self._given:
            self._given = True
            answer.set_result(pb.ClaimTasksResponse(tasks=[a_task(name) for name in self._tasks]))
        return answer

    async def finish_and_claim(
        self, items: Sequence[work_pb2.FinishItem], count: int
    ) -> pb.ClaimTasksResponse:
        self.sent.append([item.task_id for item in items])
        if self.one_by_one:
            raise _rpc_error(grpc.StatusCode.INVALID_ARGUMENT)
        await self._fail_or_pass()
        self.finished += [item.task_id for item in items]
        return pb.ClaimTasksResponse(
            finish_results=[work_pb2.FinishResult(task_id=item.task_id) for item in items]
        )

    async def finish_one(self, item: work_pb2.FinishItem) -> None:
        await self._fail_or_pass()
        self.finished.append(item.task_id)

    async def _fail_or_pass(self) -> None:
        await asyncio.sleep(0)
        if self._failures:
            raise self._failures.pop(0)


class _Never(_Service):
    """Never answers a finish."""

    async def _fail_or_pass(self) -> None:
        await asyncio.get_running_loop().create_future()


class _Forgetful(_Service):
    """Leaves the result of the last run out of its first answer."""

    async def finish_and_claim(
        self, items: Sequence[work_pb2.FinishItem], count: int
    ) -> pb.ClaimTasksResponse:
        answer = await super().finish_and_claim(items, count)
        if len(self.sent) == 1:
            answer.finish_results.pop()
        return answer


def _rpc_error(code: grpc.StatusCode) -> grpc.aio.AioRpcError:
    nothing = grpc.aio.Metadata()
    return grpc.aio.AioRpcError(code, nothing, nothing)


async def _done(_run: Run) -> Outcome:
    return Completed()


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize(
    "failure", [asyncio.CancelledError(), grpc.aio.UsageError("the channel is closed"), LookupError("odd")]
)
async def test_a_finish_whose_call_broke_off_is_sent_again(
    failure: BaseException, *, one_by_one: bool
) -> None:
    service, book = _Service(failure), LeaseBook()
    service.one_by_one = one_by_one
    dispatcher = dispatcher_of(service, PlayedBeats(), _done, slots=1, book=book)
    dispatcher.wake()
    await settled()
    # Not at once: a channel that is closed breaks off every call.
    assert (service.sent, service.finished, len(book)) == ([["one"]], [], 1)
    dispatcher.resume()
    await settled()
    assert (service.finished, len(book)) == (["one"], 0)


async def test_a_run_that_an_answer_leaves_out_is_finished_again_and_the_others_are_not() -> None:
    service, book = _Forgetful(tasks=["one", "two"]), LeaseBook()
    dispatcher = dispatcher_of(service, PlayedBeats(), _done, slots=2, book=book)
    dispatcher.wake()
    await settled()
    # Not at once: a server that always leaves out something would be called without end.
    assert (service.sent, len(book)) == ([["one", "two"]], 1)
    dispatcher.resume()
    await settled()
    assert (service.sent, len(book)) == ([["one", "two"], ["two"]], 0)


async def test_a_finish_that_the_end_of_the_drain_cancels_begins_no_other_call() -> None:
    service, book = _Never(), LeaseBook()
    dispatcher = dispatcher_of(service, PlayedBeats(), _done, slots=1, book=book)
    dispatcher.wake()
    await settled()
    await dispatcher.drain(0.1)
    await settled()
    dispatcher.resume()
    await settled()
    # Still in the book: the last beat names what its worker did hear of.
    assert (service.sent, len(book)) == ([["one"]], 1)
