"""Bad clients against the whole product: refused for what they did, told nothing, and soon forgotten."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.access import ROLES
from tests.soak.system.fuzz import campaign, rude
from tests.soak.system.fuzz.methods import every_method
from tests.soak.system.fuzz.oracle import check_servers
from tests.soak.system.fuzz.seeds import Seeds
from tests.soak.system.fuzz.target import Target, start

MOST_GROWTH_BYTES = 200_000_000

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def target(database_url: str) -> Iterator[Target]:
    """Give running servers with something of everything stored; their logs are looked at in the end."""
    folder = Path(tempfile.mkdtemp(prefix="frontrow-fuzz-"))
    servers = start(folder, database_url)
    try:
        Seeds(servers).make()
        servers.memory_before = servers.memory_bytes()
        yield servers
    finally:
        status = servers.close()
        shutil.rmtree(folder)
    assert status == 0


@pytest.mark.parametrize("context", ["task", "review", "ingest", "asr"])
def test_whatever_bytes_come_they_are_answered_or_refused_and_nothing_is_told(
    target: Target, context: str
) -> None:
    campaign.attack(target, context, examples=6, repeatable=True)


def test_page_tokens_that_somebody_made_up_are_refused_or_lead_somewhere(target: Target) -> None:
    assert campaign.forge(target, every_method()) > 100


def test_every_method_asks_for_the_token_of_its_roles_and_for_no_other(target: Target) -> None:
    campaign.knock(target, every_method(), ROLES)


async def test_rude_clients_cost_the_servers_nothing_that_lasts(target: Target) -> None:
    await rude.all_of_it(target, seconds=2.0)


async def test_afterwards_the_servers_are_well_and_their_logs_hold_no_defect_and_no_secret(
    target: Target,
) -> None:
    await check_servers(target, target.memory_before, most_bytes=MOST_GROWTH_BYTES)
