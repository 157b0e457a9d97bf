"""A look that rides along with the sweep spares the poll its own; a sweep that is late spares nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from libs.common.lane import Connection
from services.task.loops import poll
from services.task.work import WorkDesk

CONNECTION = cast(Connection, None)


class _Desk:
    def __init__(self) -> None:
        self.probes = 0
        self.empty: list[tuple[list[str], float]] = []

    def waiting_types(self) -> list[str]:
        return ["t"]

    def probe(self) -> None:
        self.probes += 1

    def note_empty(self, types: list[str], at: float) -> None:
        self.empty.append((types, at))


async def test_the_poll_looks_itself_only_while_no_sweep_does(monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = 0.0, 0

    async def no_work(*_: object) -> bool:
        nonlocal asked
        asked += 1
        return False

    monkeypatch.setattr(poll, "has_work", no_work)
    monkeypatch.setattr(poll, "time", SimpleNamespace(monotonic=lambda: now))
    desk = _Desk()
    made = poll.Poll(cast(WorkDesk, desk), interval_seconds=3.0)
    for _ in range(10):  # sweeps every 3 s, the poll's own steps between them
        now += 3.0
        assert not await made.ride_along(CONNECTION)
        await made.step()
    assert (asked, desk.probes) == (10, 0)
    assert desk.empty == [(["t"], 3.0 * number) for number in range(1, 11)]
    now += 3.4  # a sweep that doesn't come
    await made.step()
    assert desk.probes == 1
    now += 1.0
    assert not await made.ride_along(CONNECTION)
    assert asked == 10  # looked just now
