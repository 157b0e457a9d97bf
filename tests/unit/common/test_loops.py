"""Loops that outlive their steps' failures, without a database."""

import asyncio
import time

import pytest
from structlog.testing import capture_logs

from libs.common.loops import Periodic, backoff_seconds
from libs.common.testing import eventually


class Steps:
    """Count the steps; fail while ``failing`` and wait while ``gate`` is closed."""

    def __init__(self) -> None:
        self.count = 0
        self.failing = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.finished = 0

    async def __call__(self) -> None:
        self.count += 1
        await self.gate.wait()
        if self.failing:
            raise RuntimeError("on purpose")
        self.finished += 1


async def test_a_step_runs_at_once_and_then_at_every_interval() -> None:
    steps = Steps()
    loop = Periodic("test", 0.01, steps)
    await loop.start()
    await eventually(lambda: steps.count >= 5)
    await loop.stop()
    stopped_at = steps.count
    await asyncio.sleep(0)
    assert steps.count == stopped_at


async def test_a_wake_runs_a_step_without_waiting_for_the_interval() -> None:
    steps = Steps()
    loop = Periodic("test", 3600, steps)
    await loop.start()
    await eventually(lambda: steps.finished == 1)
    loop.wake()
    await eventually(lambda: steps.finished == 2)
    await loop.stop()


async def test_many_wakes_during_a_step_are_one_more_step() -> None:
    steps = Steps()
    steps.gate.clear()
    loop = Periodic("test", 3600, steps)
    await loop.start()
    await eventually(lambda: steps.count == 1)
    for _ in range(100):
        loop.wake()
    steps.gate.set()
    await eventually(lambda: steps.finished == 2)
    for _ in range(20):
        await asyncio.sleep(0)
    assert steps.count == 2
    await loop.stop()


async def test_a_failed_step_is_logged_backs_off_and_the_loop_goes_on() -> None:
    steps = Steps()
    steps.failing = True
    loop = Periodic("test", 0.01, steps)
    with capture_logs() as logs:
        began = time.monotonic()
        await loop.start()
        await eventually(lambda: steps.count == 1)
        for _ in range(20):
            loop.wake()  # a wake does not cut a back-off short
            await asyncio.sleep(0)
        assert steps.count == 1
        await eventually(lambda: steps.count == 2)
    assert time.monotonic() - began >= 0.125
    assert [(entry["event"], entry["loop"], entry["failures"]) for entry in logs][:1] == [
        ("loop.step_failed", "test", 1)
    ]
    steps.failing = False
    await eventually(lambda: steps.finished > 3)
    await loop.stop()


async def test_a_cancellation_that_was_not_meant_for_the_loop_does_not_end_it() -> None:
    ran: list[int] = []

    async def step() -> None:
        ran.append(1)
        if len(ran) == 1:
            raise asyncio.CancelledError  # as a call does whose channel was closed

    loop = Periodic("test", 0.01, step)
    await loop.start()
    await eventually(lambda: len(ran) >= 3)
    await loop.stop()


async def test_stopping_lets_the_step_in_hand_finish() -> None:
    steps = Steps()
    steps.gate.clear()
    loop = Periodic("test", 0.01, steps)
    await loop.start()
    await eventually(lambda: steps.count == 1)
    stopping = asyncio.create_task(loop.stop())
    await asyncio.sleep(0)
    assert not stopping.done()
    steps.gate.set()
    await stopping
    assert (steps.count, steps.finished) == (1, 1)


async def test_a_step_that_outlasts_the_grace_is_cancelled() -> None:
    steps = Steps()
    steps.gate.clear()
    loop = Periodic("test", 0.01, steps, grace_seconds=0.05)
    await loop.start()
    await eventually(lambda: steps.count == 1)
    with capture_logs() as logs:
        await loop.stop()
    assert steps.finished == 0
    assert [entry["event"] for entry in logs] == ["loop.step_cancelled"]


async def test_starting_and_stopping_twice_is_harmless_and_a_stopped_loop_can_start_again() -> None:
    steps = Steps()
    loop = Periodic("test", 3600, steps)
    await loop.stop()
    await loop.start()
    await loop.start()
    await eventually(lambda: steps.finished == 1)
    await loop.stop()
    await loop.stop()
    await loop.start()
    await eventually(lambda: steps.finished == 2)
    await loop.stop()


@pytest.mark.parametrize(("failures", "most"), [(0, 0.25), (1, 0.25), (2, 0.5), (7, 16), (8, 30), (5000, 30)])
def test_backing_off_doubles_up_to_its_limit_with_jitter(failures: int, most: float) -> None:
    waits = [backoff_seconds(failures) for _ in range(200)]
    assert all(most / 2 <= wait <= most for wait in waits)
    assert len(set(waits)) > 100


async def test_a_loop_that_has_long_failed_tries_again_each_second(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def wait(seconds: float, *_events: asyncio.Event) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    async def step() -> None:
        raise OSError("the database is away")

    monkeypatch.setattr(Periodic, "_wait", staticmethod(wait))
    loop = Periodic("test", 3600, step)
    await loop.start()
    await eventually(lambda: len(pauses) > 20)
    await loop.stop()
    assert min(pauses[5:20]) >= 0.5
    assert max(pauses) <= 1
