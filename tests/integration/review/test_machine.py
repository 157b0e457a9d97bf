"""The review service against the rules: a short run of what `make soak` does for long."""

from __future__ import annotations

from pathlib import Path

from tests.soak.review.profiles import run_machine


def test_after_every_step_official_rows_and_references_are_what_the_drafts_say(
    database_url: str, tmp_path: Path
) -> None:
    took = run_machine(database_url, tmp_path, examples=3, repeatable=True)
    assert took["steps"] > 80
