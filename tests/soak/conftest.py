"""How much of a soak to run."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--share`, for a look at less than the whole."""
    parser.addoption("--share", type=float, default=1.0, help="how much of each soak to run, above 0 up to 1")


@pytest.fixture
def share(request: pytest.FixtureRequest) -> float:
    """Give the part of each soak that shall run."""
    share: float = request.config.getoption("--share")
    return share


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Callable[[object], None]:
    """Give a way to say what came out, past pytest's capture."""

    def say(what: object) -> None:
        with capsys.disabled():
            print(f"\n{what}")

    return say
