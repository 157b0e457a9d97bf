"""Work while processes are killed and connections cut: a small form of what `make soak` does at length."""

from __future__ import annotations

import pytest

from tests.soak.task.storm import Plan, Storm


@pytest.mark.timeout(300)
async def test_every_task_ends_once_while_workers_servers_and_postgresql_are_killed() -> None:
    report = await Storm(
        Plan(tasks=200, kills=5, goodbyes=2, restarts=1, cuts=2, longest_pause_seconds=0.3, end_seconds=120)
    ).run()
    print(report)
    assert report.ended.total() == 200
    assert (report.faults["kill"], report.faults["say_goodbye"]) == (5, 2)
    assert max(report.serving_again_seconds) <= 5
