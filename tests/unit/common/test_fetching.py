"""What hosts say of when to come again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from libs.common.fetching import LONGEST_PAUSE_SECONDS, retry_after_seconds

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("30", 30.0),
        (" 0 ", 0.0),
        ("9" * 400, LONGEST_PAUSE_SECONDS),
        ("Sun, 01 Mar 2026 12:01:00 GMT", 60.0),
        ("Sun, 01 Mar 2026 12:01:00", 60.0),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0.0),
        ("Mon, 01 Mar 2027 12:00:00 GMT", LONGEST_PAUSE_SECONDS),
    ],
)
def test_seconds_and_dates_ask_for_a_pause_of_an_hour_at_most(value: str, seconds: float) -> None:
    assert retry_after_seconds(value, NOW) == seconds


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "soon",
        "-1",
        "1.5e",
        "²",
        "①",
        "1²",
        "Sun, 01 Mar 2026 12:01:00 +99999999999999999999",
        "Sun, 01 Mar 99999 12:01:00 GMT",
        "Sun, 99 Mar 2026 12:01:00 GMT",
    ],
)
def test_a_value_that_says_nothing_asks_for_no_pause(value: str | None) -> None:
    assert retry_after_seconds(value, NOW) is None
