"""Every run that ends is told of, however its handler ended."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest
from frontrow.task.v1 import task_service_pb2 as pb
from frontrow.task.v1 import work_pb2
from frontrow.worker import Outcome, Released, Run, TaskFailed

from tests.unit.worker.support import PlayedBeats, a_task, dispatcher_of, settled


class _OneTask:
    """Gives one task out and takes its end."""

    def __init__(self) -> None:
        self._given = False
        self.finished: list[work_pb2.FinishItem] = []

    def claim(self, count: int, *, wait_seconds: float) -> Any:
        answer: asyncio.Future[pb.ClaimTasksResponse] = asyncio.get_running_loop().create_future()
        if not self._given:
            self._given = True
            answer.set_result(pb.ClaimTasksResponse(tasks=[a_task("one")]))
        return answer

    async def finish_and_claim(self, items: Any, count: int) -> pb.ClaimTasksResponse:
        self.finished += items
        return pb.ClaimTasksResponse(
            finish_results=[work_pb2.FinishResult(task_id=item.task_id) for item in items]
        )


async def _fails_without_words(_run: Run) -> Outcome:
    raise TaskFailed(ValueError("no text"))  # type: ignore[arg-type]  # a handler's mistake


async def _pauses_for_ever(_run: Run) -> Outcome:
    return Released(math.inf)


async def _waits_for_what_is_cancelled(_run: Run) -> Outcome:
    inner = asyncio.ensure_future(asyncio.Event().wait())
    asyncio.get_running_loop().call_soon(inner.cancel)
    await inner
    raise AssertionError("unreachable")


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (_fails_without_words, "can't be told"),
        (_pauses_for_ever, "can't be told"),
        (_waits_for_what_is_cancelled, "cancelled from inside"),
    ],
)
async def test_an_end_that_makes_no_sense_is_a_failure_to_be_tried_again(
    handler: Callable[[Run], Any], said: str
) -> None:
    service = _OneTask()
    dispatcher_of(service, PlayedBeats(), handler, slots=1).wake()
    await settled()
    [item] = service.finished
    assert (item.WhichOneof("end"), item.failed.retryable) == ("failed", True)
    assert said in item.failed.message


async def test_a_handler_that_a_stop_cancels_is_given_back_uncharged() -> None:
    async def handle(_run: Run) -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    service = _OneTask()
    dispatcher = dispatcher_of(service, PlayedBeats(), handle, slots=1)
    dispatcher.wake()
    await settled()
    await dispatcher.drain(0.2)
    assert [item.WhichOneof("end") for item in service.finished] == ["released"]
