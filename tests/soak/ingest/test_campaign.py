"""2,000 submissions while workers, servers, PostgreSQL and the store are killed with -9."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.soak.ingest.campaign import Campaign, Scale

SUBMISSIONS, WORKERS, SERVERS, DATABASES, STORES, CLEAN_UPS = 2_000, 60, 30, 12, 12, 10

# As many kills may all meet idle workers.
FEW_KILLS = 10


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("store", ["folder", "seaweedfs"])
async def test_the_drafts_are_the_models_whatever_is_killed(
    store: str, share: float, tell: Callable[[object], None]
) -> None:
    scale = Scale(
        submissions=round(SUBMISSIONS * share),
        worker_kills=max(2, round(WORKERS * share)),
        server_kills=max(2, round(SERVERS * share)),
        database_kills=max(1, round(DATABASES * share)),
        store_kills=max(1, round(STORES * share)),
        clean_ups=max(1, round(CLEAN_UPS * share)),
        store=store,
        longest_pause_seconds=2.0,
        longest_outage_seconds=6.0,
        end_seconds=600.0,
        seed=random.randrange(1 << 32),
    )
    tell(scale)
    report = await Campaign(scale).run()
    tell(report)
    assert report.faults["kill_worker"] == scale.worker_kills
    if scale.worker_kills >= FEW_KILLS:
        assert report.died_with_their_worker, "no kill met a run: the campaign showed nothing"
