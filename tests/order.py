"""Which test files begin first: begun last, a long one would be all that still runs.

Under xdist a file is run by one worker, in the order of this list; all others follow as they are collected.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

# Those that take eight seconds and more.
LONGEST_FIRST = (
    "e2e/test_backup.py",
    "e2e/test_deployment.py",
    "e2e/test_rolling_upgrade.py",
    "e2e/test_life.py",
    "integration/asr/test_worker.py",
    "integration/ingest/test_campaign.py",
    "integration/media/test_changing_encoders.py",
    "integration/media/test_cut.py",
    "integration/slicing/test_draft_media.py",
    "integration/backup/test_backup.py",
    "integration/backup/test_restore.py",
    "integration/asr/test_fetch.py",
    "integration/slicing/test_worker_faults.py",
    "integration/ingest/test_chain.py",
    "integration/asr/test_worker_outages.py",
    "integration/slicing/test_draft_chain.py",
    "integration/asr/test_killed_stages.py",
    "integration/asr/test_stored_by_runs.py",
    "integration/ingest/test_scrapy.py",
    "integration/ingest/test_dedupe.py",
    "integration/media/test_cut_other_ways.py",
    "integration/task/test_storm.py",
    "integration/ingest/test_stores.py",
    "integration/ingest/test_rerun.py",
    "integration/asr/test_worker_failures.py",
    "integration/asr/test_transcription_runs.py",
    "integration/asr/test_secrets.py",
    "integration/objects/test_contract.py",
    "integration/common/test_postgres.py",
    "integration/ingest/test_outages.py",
    "integration/task/test_machine.py",
    "integration/worker/test_worker.py",
    "integration/objects/test_multiparts.py",
    "integration/review/test_same_bytes.py",
    "wire/ingest/test_submit_fuzz.py",
    "integration/media/test_clock.py",
    "integration/worker/test_worker_life.py",
    "integration/task/test_held_rows.py",
    "integration/task/test_deaf_server.py",
)


def longest_first(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests with those of the long files first; otherwise their order stays."""
    places = {TESTS / name: place for place, name in enumerate(LONGEST_FIRST)}
    return sorted(items, key=lambda item: places.get(item.path, len(places)))
