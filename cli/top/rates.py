"""How fast tasks come, begin and end, from counters that were read several times."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

WINDOW_SECONDS = 15.0
TEN_MINUTES = 600.0


class Level(NamedTuple):
    """How many tasks of a type wait, run, and have ended and are kept."""

    type: str
    pending: int
    processing: int
    ended: int


class Flows:
    """Remembers the levels of the last seconds; tells the flows between the oldest and the newest."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, dict[str, Level]]] = deque()

    def note(self, at: float, levels: Sequence[Level]) -> None:
        """Take over the levels at a moment (monotonic seconds)."""
        self._looks.append((at, {level.type: level for level in levels}))
        while len(self._looks) > 2 and at - self._looks[0][0] > WINDOW_SECONDS:
            self._looks.popleft()

    def of(self, task_type: str, created: float, ended: float) -> dict[str, float | None]:
        """Return the flows of a type a second, and over how many seconds they were measured.

        From one look alone they are the server's averages over ten minutes, `created` and `ended`; how many
        began isn't known then. A run that is requeued isn't seen; old tasks that are deleted meanwhile hide
        as many that ended.
        """
        first, last = self._looks[0], self._looks[-1]
        seconds = last[0] - first[0]
        before, now = first[1].get(task_type), last[1].get(task_type)
        if seconds <= 0 or now is None:
            return _told(created, None, ended, TEN_MINUTES)
        before = before or Level(task_type, 0, 0, 0)
        over = max(0, now.ended - before.ended)
        began = max(0, over + now.processing - before.processing)
        came = max(0, began + now.pending - before.pending)
        return _told(came / seconds, began / seconds, over / seconds, seconds)


def _told(created: float, started: float | None, ended: float, seconds: float) -> dict[str, float | None]:
    return {
        "created_per_second": round(created, 3),
        "started_per_second": None if started is None else round(started, 3),
        "ended_per_second": round(ended, 3),
        "rate_seconds": round(seconds, 1),
    }
