"""The review service against the rules, step by step and at once: two halves, for two cores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.soak.review.profiles import run_machine

STEPS = 40_000


@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("half", ["first", "second"])
def test_after_every_step_official_rows_and_references_are_what_the_drafts_say(
    database_url: str, tmp_path: Path, share: float, half: str, tell: Callable[[object], None]
) -> None:
    steps = round(STEPS / 2 * share)
    examples = max(1, min(200, steps // 40))
    took = run_machine(database_url, tmp_path, examples=examples, steps=steps, repeatable=False)
    assert took["steps"] >= steps
    tell(f"{half} half: {took['steps']} steps: {dict(sorted(took.items()))}")
