"""Who is woken by a signal, and who gets which slot."""

from __future__ import annotations

import pytest

from services.task.waiters import Waiter, WaitRoom, by_types, slots_of


def _wait(room: WaitRoom, name: str, *types: str, count: int = 1) -> Waiter:
    waiter = Waiter(name, types, count)
    room.add(waiter)
    return waiter


async def test_one_task_wakes_one_waiter_the_one_that_waits_longest() -> None:
    room = WaitRoom()
    first, _ = _wait(room, "a", "t"), _wait(room, "b", "t")
    assert room.signal("t")
    assert room.take_signalled() == [first]
    assert room.take_signalled() == []


async def test_as_many_waiters_wake_as_there_are_tasks_and_signals_never_pile_up() -> None:
    room = WaitRoom()
    waiters = [_wait(room, str(index), "t") for index in range(3)]
    for _ in range(50):
        room.signal("t", 100)
    assert room.take_signalled() == waiters
    room.remove(waiters[0])
    assert room.take_signalled() == []


async def test_a_signal_for_a_type_nobody_wants_is_dropped() -> None:
    room = WaitRoom()
    waiter = _wait(room, "a", "t")
    assert not room.signal("other")
    room.remove(waiter)
    assert not room.signal("t")
    assert len(room) == 0


async def test_a_waiter_for_several_types_hears_each_of_them() -> None:
    room = WaitRoom()
    both, only = _wait(room, "a", "s", "t"), _wait(room, "b", "t")
    room.signal("s")
    assert room.take_signalled() == [both]
    room.signal("t")
    assert room.take_signalled() == [both, only]


async def test_a_probe_lets_one_of_each_set_look_without_a_signal() -> None:
    room = WaitRoom()
    assert not room.probe()
    first, _, other = _wait(room, "a", "t"), _wait(room, "b", "t"), _wait(room, "c", "s")
    assert room.probe()
    assert room.take_signalled() == [first, other]


async def test_when_nobody_knows_how_many_tasks_there_are_twice_as_many_look_after_a_hit() -> None:
    room = WaitRoom()
    for index in range(10):
        _wait(room, str(index), "t")
    room.probe()
    assert len(room.take_signalled()) == 1
    room.note_rest(("t",), 3, exhausted=False)
    assert len(room.take_signalled()) == 6
    room.note_rest(("t",), 6, exhausted=True)
    room.note_rest(("t",), 6, exhausted=False)
    assert room.take_signalled() == []


async def test_when_the_tasks_were_counted_nobody_looks_beyond_them() -> None:
    room = WaitRoom()
    for index in range(4):
        _wait(room, str(index), "t")
    room.signal("t", 2)
    assert len(room.take_signalled()) == 2
    room.note_rest(("t",), 2, exhausted=False)
    assert room.take_signalled() == []
    room.signal("t", 5)
    assert len(room.take_signalled()) == 4
    room.note_rest(("t",), 1, exhausted=False)
    assert len(room.take_signalled()) == 2


async def test_who_found_nothing_is_lent_unless_somebody_looks_or_shall_look() -> None:
    room = WaitRoom()
    new, settled = _wait(room, "new", "s", "t"), _wait(room, "settled", "s", "t")
    assert room.lend("t") is None
    room.settle(settled)
    room.signal("s")
    assert room.lend("t") is None
    assert room.take_signalled() == [new]
    assert room.lend("t") is None
    room.looked()
    assert room.lend("other") is None
    assert room.lend("t") is settled
    assert not room.holds(settled)
    assert room.lend("t") is None


@pytest.mark.parametrize(
    ("counts", "most", "slots"),
    [
        ([1, 1], 10, "ab"),
        ([3, 1], 10, "abaa"),
        ([2, 3, 1], 10, "abcabb"),
        ([5, 5], 4, "abab"),
        ([], 4, ""),
    ],
)
async def test_slots_are_dealt_in_turns(counts: list[int], most: int, slots: str) -> None:
    waiters = [Waiter(name, ("t",), count) for name, count in zip("abcdef", counts, strict=False)]
    assert "".join(waiter.worker_id for waiter in slots_of(waiters, most)) == slots


async def test_waiters_are_grouped_by_the_types_they_want() -> None:
    one, two = Waiter("a", ("s",), 1), Waiter("b", ("s", "t"), 1)
    assert by_types([one, two]) == {("s",): [one], ("s", "t"): [two]}


async def test_who_comes_to_those_that_found_nothing_need_not_look() -> None:
    room = WaitRoom()
    first = _wait(room, "a", "t")
    assert not room.is_settled(("t",))
    room.settle(first)
    assert room.is_settled(("t",))
    assert not room.is_settled(("s", "t"))
    second = _wait(room, "b", "t")
    room.remove(first)
    assert not room.is_settled(("t",))
    room.settle(second)
    room.remove(second)
    room.settle(second)
    assert not room.is_settled(("t",))
