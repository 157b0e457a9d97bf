"""What can be wrong with an image, as values with stable reasons."""

from __future__ import annotations

from libs.common.fetch_problems import FetchProblem

# Another try may end otherwise, beside what is so of every fetch.
_TRANSIENT = frozenset({"DECODER_CRASHED", "DECODE_TIMEOUT"})


class ImageProblem(FetchProblem):
    """An image can't be taken. `reason` is stable; the message never holds anything that was fetched."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(reason, message)
        self.args = (f"{reason}: {message}",)

    @property
    def transient(self) -> bool:
        """Whether another try may end otherwise."""
        return self.reason in _TRANSIENT or super().transient
