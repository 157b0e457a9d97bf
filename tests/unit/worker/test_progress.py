"""What a handler reports of its progress: it only rises, and each hundredth of a per cent counts."""

from __future__ import annotations

import pytest
from frontrow.worker.leases import lease_of
from frontrow.worker.run import Run

from tests.unit.worker.support import a_task


def test_progress_only_rises_within_its_bounds_and_a_whole_per_cent_is_a_step() -> None:
    steps: list[int] = []
    run = Run(a_task("task"), on_step=lambda: steps.append(run.percent))
    seen = []
    for percent in (0, -3, 5, 5.25, 5.1, 4, 5.994, 6.0, 99.999, 1000):
        run.progress(percent)
        seen.append(run.hundredths)
    assert seen == [0, 0, 500, 525, 525, 525, 599, 600, 9_999, 10_000]
    assert steps == [5, 6, 99, 100]


@pytest.mark.parametrize("percent", [0.29, 57.58, 95.29, 96.8, 99.99])
def test_a_hundredth_is_what_was_meant_whatever_floats_make_of_it(percent: float) -> None:
    run = Run(a_task("task"))
    run.progress(percent)
    assert run.hundredths == round(percent * 100)
    lease = lease_of(run)
    assert (lease.progress, lease.progress_hundredths) == divmod(round(percent * 100), 100)


def test_no_number_makes_a_report_fail() -> None:
    run = Run(a_task("task"))
    for percent in (float("nan"), float("-inf")):
        run.progress(percent)
        assert run.hundredths == 0
    run.progress(float("inf"))
    assert run.percent == 100


def test_a_run_without_progress_reports_none() -> None:
    lease = lease_of(Run(a_task("task")))
    assert not lease.HasField("progress")
    assert lease.progress_hundredths == 0
