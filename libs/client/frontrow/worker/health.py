"""Whether what a worker stands on works: the task service it calls, and whatever its handlers need."""

from __future__ import annotations

from collections.abc import Callable

from frontrow.worker.backoff import Breaker


class Health:
    """Two breakers, and the word to whoever wants to know (domain.md 2.4).

    Apart, because a task service that answers says nothing about the store a handler needs.
    """

    def __init__(self, on_serving: Callable[[bool], None]) -> None:
        self.calls = Breaker()
        self.runs = Breaker()
        self._serving = True
        self._on_serving = on_serving

    @property
    def serving(self) -> bool:
        """Whether neither breaker is open."""
        return self._serving

    def failed(self, breaker: Breaker) -> float:
        """Note a failure of one of the two; return the pause in seconds before the next try."""
        pause = breaker.failed()
        self._tell()
        return pause

    def worked(self, breaker: Breaker) -> None:
        """Note that one of the two worked."""
        breaker.succeeded()
        if not self._serving:
            self._tell()

    def _tell(self) -> None:
        self._serving = not (self.calls.open or self.runs.open)
        self._on_serving(self._serving)
