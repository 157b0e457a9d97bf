"""What can be wrong with an image, as values with stable reasons."""

from __future__ import annotations

# Another try may end otherwise.
TRANSIENT = frozenset(
    {"TIMEOUT", "CONNECTION", "DNS", "SERVER_BUSY", "CUT_SHORT", "DECODER_CRASHED", "DECODE_TIMEOUT"}
)


class ImageProblem(Exception):
    """An image can't be taken. `reason` is stable; the message never holds anything that was fetched."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message

    @property
    def transient(self) -> bool:
        """Whether another try may end otherwise."""
        return self.reason in TRANSIENT


class HostPaused(Exception):
    """The image's host asked for a pause that is too long to wait for in a run.

    `asked` tells whether it said so just now, or whether it was left alone since it had said so before.
    """

    def __init__(self, host: str, seconds: float) -> None:
        super().__init__(f"{host} asks for a pause of {seconds:.0f} s")
        self.host = host
        self.seconds = seconds
        self.asked = False


class WorkerTrouble(Exception):
    """This machine can't go on with any image (a full disk, no descriptors left); no image is at fault."""
