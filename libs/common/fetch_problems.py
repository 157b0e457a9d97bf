"""What can be wrong with a fetch; apart from `fetching`, whose HTTP client takes long to import."""

from __future__ import annotations

# Another try may end otherwise.
_TRANSIENT = frozenset({"TIMEOUT", "CONNECTION", "DNS", "SERVER_BUSY", "CUT_SHORT"})


class FetchProblem(Exception):
    """It can't be had. `reason` is stable; the message never holds anything that was fetched."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message

    @property
    def transient(self) -> bool:
        """Whether another try may end otherwise."""
        return self.reason in _TRANSIENT


class HostPaused(Exception):
    """The host asked for a pause that is too long to wait for in a run.

    `asked` tells whether it said so just now, or whether it was left alone since it had said so before.
    """

    def __init__(self, host: str, seconds: float) -> None:
        super().__init__(f"{host} asks for a pause of {seconds:.0f} s")
        self.host = host
        self.seconds = seconds
        self.asked = False


class MachineTrouble(Exception):
    """This machine can't go on (a full disk, no descriptors left); what is fetched is not at fault."""
