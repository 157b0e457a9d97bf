"""The whole product for ten minutes under mixed load and every fault there is."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.asr.web import site
from tests.integration.asr.workers import first_seconds
from tests.soak.system.campaign import SystemCampaign
from tests.soak.system.recordings import SECONDS
from tests.soak.system.speech import speech_server

CAMPAIGN_SECONDS = 600.0


@pytest.mark.timeout(3600)
async def test_nothing_is_lost_nothing_comes_twice_and_all_is_idle_in_the_end(
    share: float, tmp_path: Path, tell: Callable[[object], None]
) -> None:
    content = await first_seconds(tmp_path, SECONDS)
    seed = random.randrange(1 << 32)
    tell(f"seed {seed}")
    async with speech_server() as speech_url, site(content) as served:
        campaign = SystemCampaign(
            CAMPAIGN_SECONDS * share, seed, speech_url=speech_url, content=content, url=served.url
        )
        await campaign.run()
    report = campaign.report
    tell(report)
    assert report.recordings >= 2
    expected = set(campaign.kinds_of_faults)
    assert set(report.faults) <= expected
    # the first deck has one of each kind, and takes far less than the whole time
    missing = expected - set(report.faults)
    assert not missing or share < 1.0, f"never happened: {sorted(missing)}"
    assert sum(report.faults.values()) >= max(1.0, 4 * share)
