"""Bad clients at length: new requests each time, all methods, tokens and manners."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from services.access import ROLES
from tests.soak.system.fuzz import campaign, rude
from tests.soak.system.fuzz.methods import every_method
from tests.soak.system.fuzz.oracle import check_servers
from tests.soak.system.fuzz.seeds import Seeds
from tests.soak.system.fuzz.target import Target, start

EXAMPLES, RUDE_SECONDS = 1_000, 60.0
MOST_GROWTH_BYTES = 250_000_000


@pytest.fixture
def target(database_url: str) -> Iterator[Target]:
    """Give running servers with something of everything stored."""
    folder = Path(tempfile.mkdtemp(prefix="frontrow-fuzz-"))
    servers = start(folder, database_url)
    try:
        Seeds(servers).make()
        yield servers
    finally:
        status = servers.close()
        shutil.rmtree(folder)
    assert status == 0


@pytest.mark.timeout(4 * 3600)
async def test_whatever_comes_is_answered_or_refused_and_leaves_nothing(
    target: Target, share: float, tell: Callable[[object], None]
) -> None:
    campaign.knock(target, every_method(), ROLES)
    campaign.forge(target, every_method())
    examples = max(20, round(EXAMPLES * share))
    memory_before = target.memory_bytes()
    for context in target.channels:
        sent = campaign.attack(target, context, examples=examples, repeatable=False)
        tell(f"{context}: {sent} requests, {target.memory_bytes() / 1e6:.0f} MB")
    await rude.all_of_it(target, seconds=max(5.0, RUDE_SECONDS * share))
    await check_servers(target, memory_before, most_bytes=MOST_GROWTH_BYTES)
    tell(f"{memory_before / 1e6:.0f} MB before, {target.memory_bytes() / 1e6:.0f} MB afterwards")
