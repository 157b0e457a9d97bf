"""The store is gone for a minute: jobs wait, and no attempt is burnt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import asyncpg
import pytest

from tests.soak.ingest.campaign import Campaign, Scale

SUBMISSIONS = 80
OUTAGE_SECONDS, SHORTEST_SECONDS = 60.0, 10.0


class StoreOutage(Campaign):
    """Submissions that come in, and are worked on, while there is no store."""

    def __init__(self, *, store: str, seconds: float) -> None:
        super().__init__(Scale(submissions=SUBMISSIONS, worker_kills=0, server_kills=0, database_kills=0,
                               store_kills=1, workers=2, store=store))  # fmt: skip
        self._seconds = seconds
        self.waiting = 0

    async def storm(self, site: str) -> None:
        """Take the store away, submit everything, bring it back."""
        await self.fleet.store.go()
        await asyncio.gather(self.submit_all(site), asyncio.sleep(self._seconds))
        connection = await asyncpg.connect(self.fleet.postgres.direct_url)
        drafts = "SELECT count(*) FROM review.brand_runway_drafts"
        assert await connection.fetchval(drafts) == 0, "a draft whose images are nowhere"
        waiting = "SELECT count(*) FROM ingest.jobs WHERE status IN ('pending', 'processing')"
        self.waiting = await connection.fetchval(waiting)
        await connection.close()
        await self.fleet.store.come_back()
        self.report.faults["store_outage"] += 1


@pytest.mark.timeout(900)
@pytest.mark.parametrize("store", ["folder", "seaweedfs"])
async def test_jobs_wait_for_a_store_that_is_gone_and_burn_no_attempt(
    store: str, share: float, tell: Callable[[object], None]
) -> None:
    outage = StoreOutage(store=store, seconds=max(SHORTEST_SECONDS, OUTAGE_SECONDS * share))
    report = await outage.run()
    tell(report)
    assert outage.waiting >= SUBMISSIONS // 2
    assert report.given_up == 0
    assert report.runs["released RELEASED"] > 0, "no run met the outage"
