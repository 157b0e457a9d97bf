"""What a job's end is called when its task tells it."""

from __future__ import annotations

import pytest

from services.ingest.states import failure_of


@pytest.mark.parametrize(
    ("reason", "message", "called"),
    [
        ("ABANDONED", "gone", ("ABANDONED", "gone")),
        ("CANCELLED", "", ("CANCELLED", "")),
        ("FAILED", "IMAGE_REJECTED: image 1", ("IMAGE_REJECTED", "image 1")),
        (
            "FAILED",
            "image 1 of 2: HTTP_503: try later",
            ("TRIES_USED_UP", "image 1 of 2: HTTP_503: try later"),
        ),
        ("FAILED", "OSError: no", ("TRIES_USED_UP", "OSError: no")),
        ("FAILED", "FAILED: no", ("TRIES_USED_UP", "FAILED: no")),
        ("FAILED", "", ("TRIES_USED_UP", "")),
    ],
)
def test_the_reason_is_said_once_and_never_only_that_it_failed(
    reason: str, message: str, called: tuple[str, str]
) -> None:
    assert failure_of(reason, message) == called
