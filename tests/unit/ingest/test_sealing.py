"""Secrets at rest."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from services.ingest.errors import SealingKeyChanged
from services.ingest.sealing import Sealer


def test_a_sealed_secret_opens_with_the_same_key_and_key_id_only() -> None:
    sealer = Sealer.from_hex("ab" * 32)
    box = sealer.seal("fk_1", "secret")
    assert b"secret" not in box
    assert sealer.open("fk_1", box) == "secret"
    with pytest.raises(SealingKeyChanged):
        sealer.open("fk_2", box)
    with pytest.raises(SealingKeyChanged):
        Sealer.from_hex("cd" * 32).open("fk_1", box)


def test_the_key_file_is_made_once_and_read_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "data" / "sealing.key"
    with ThreadPoolExecutor(8) as pool:
        sealers = list(pool.map(lambda _: Sealer.from_file(path), range(8)))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["sealing.key"]
    assert {s.open("k", sealers[0].seal("k", "one")) for s in sealers} == {"one"}


def test_a_key_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="64 hex digits"):
        Sealer.from_hex("ab" * 16)
