"""The task service against the model of the queue: a short run of what `make soak` does for long."""

from __future__ import annotations

from tests.soak.task.profiles import run_machine


def test_the_service_does_what_the_model_says_whatever_happens(database_url: str) -> None:
    assert run_machine(database_url, examples=15, repeatable=True) > 400
