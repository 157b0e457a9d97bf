"""How a worker fills its calls: whole batches side by side when there is plenty, one call otherwise."""

from __future__ import annotations

from frontrow.worker import Completed, Outcome, Run
from frontrow.worker.calls import LARGEST_BATCH

from tests.unit.worker.support import PlayedBeats, QueueOfTasks, dispatcher_of, settled


async def _done(_run: Run) -> Outcome:
    return Completed()


async def test_two_whole_batches_travel_side_by_side_while_there_is_plenty() -> None:
    service = QueueOfTasks()
    dispatcher = dispatcher_of(service, PlayedBeats(), _done, slots=400)
    dispatcher.wake()
    for _ in range(40):
        await settled()
        service.answer_one()
    assert service.most_finishes_at_once == 2
    assert len(service.finished) == len(set(service.finished))
    assert max(max(size) for size in service.sizes) == LARGEST_BATCH
    # What ended and what runs never outgrows the slots by more than what is on its way.
    ended = 40 * LARGEST_BATCH - len(service.finished)
    assert ended <= 400 + 3 * LARGEST_BATCH


async def test_with_few_slots_what_ends_meanwhile_waits_for_the_one_call() -> None:
    service = QueueOfTasks()
    dispatcher = dispatcher_of(service, PlayedBeats(), _done, slots=20)
    dispatcher.wake()
    for _ in range(20):
        await settled()
        assert len(service.waiting) == 1
        service.answer_one()
    assert service.most_finishes_at_once == 1
    assert set(service.sizes[1:]) == {(20, 20)}
