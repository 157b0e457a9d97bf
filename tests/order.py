"""Which test files begin first: begun last, a long one would be all that still runs.

Under xdist a file is run by one worker, in the order of this list; all others follow as they are collected.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

LONGEST_FIRST = (
    "e2e/test_life.py",
    "integration/asr/test_worker.py",
    "integration/ingest/test_campaign.py",
    "integration/asr/test_killed_stages.py",
    "integration/task/test_machine.py",
    "integration/review/test_machine.py",
    "integration/task/test_storm.py",
)


def longest_first(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests with those of the long files first; otherwise their order stays."""
    places = {TESTS / name: place for place, name in enumerate(LONGEST_FIRST)}
    return sorted(items, key=lambda item: places.get(item.path, len(places)))
