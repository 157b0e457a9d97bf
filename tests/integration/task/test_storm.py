"""Work while processes are killed and connections cut: a small form of what `make soak` does at length."""

from __future__ import annotations

import pytest

from tests.soak.task.storm import Plan, Storm


@pytest.mark.timeout(300)
async def test_every_task_ends_once_while_workers_servers_and_postgresql_are_killed() -> None:
    report = await Storm(
        Plan(tasks=300, kills=10, restarts=1, cuts=3, longest_pause_seconds=0.4, end_seconds=120)
    ).run()
    print(report)
    assert report.ended.total() == 300
    assert report.faults["kill"] == 10
    assert max(report.serving_again_seconds) <= 5
