"""Submissions under kill -9 of everything: a small form of what `make soak` does at length."""

from __future__ import annotations

import pytest

from tests.soak.ingest.campaign import Campaign, Scale


@pytest.mark.timeout(300)
async def test_the_drafts_are_the_models_while_workers_servers_database_and_store_are_killed() -> None:
    scale = Scale(
        submissions=40, worker_kills=1, server_kills=1, database_kills=1, store_kills=1, clean_ups=1,
        workers=2, lease_seconds=3.0, longest_pause_seconds=0.4, longest_outage_seconds=0.5, seed=3,
    )  # fmt: skip
    report = await Campaign(scale).run()
    print(report)
    assert report.jobs.total() < 40, "a request id that was seen makes no job"
    assert report.faults.total() == 5
