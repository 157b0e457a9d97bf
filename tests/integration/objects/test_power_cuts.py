"""A folder of objects after a power cut: what a call said is done is on the disk."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from pathlib import Path

import pytest

from libs.common.objects import open_url


class Syncs:
    """What was in each folder when it was synced the last time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._on_disk: dict[int, set[str]] = {}
        sync, one_at_a_time = os.fsync, threading.Lock()

        def noted(handle: int) -> None:
            with one_at_a_time:
                facts = os.fstat(handle)
                names = set(os.listdir(handle)) if stat.S_ISDIR(facts.st_mode) else set()
                sync(handle)
                self._on_disk[facts.st_ino] = names

        monkeypatch.setattr(os, "fsync", noted)

    def of(self, folder: Path) -> set[str]:
        """Return the names that a power cut would leave in the folder for sure."""
        return self._on_disk[folder.stat().st_ino]


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> Syncs:
    """Give a watch over the syncs of folders."""
    return Syncs(monkeypatch)


async def test_an_object_that_was_deleted_does_not_come_back(tmp_path: Path, syncs: Syncs) -> None:
    store = open_url(str(tmp_path))
    await store.put_bytes("a/kept", b"x")
    await store.put_bytes("a/gone", b"x")
    assert syncs.of(tmp_path / "a") == {"kept", "gone"}
    await store.delete("a/gone")
    assert syncs.of(tmp_path / "a") == {"kept"}


async def test_of_objects_that_are_deleted_together_none_comes_back(tmp_path: Path, syncs: Syncs) -> None:
    store = open_url(str(tmp_path))
    keys = [f"{folder}/{number}" for folder in "abc" for number in range(4)]
    await asyncio.gather(*(store.put_bytes(key, b"x") for key in keys))
    await asyncio.gather(*(store.delete(key) for key in keys))
    assert [syncs.of(tmp_path / folder) for folder in "abc"] == [set()] * 3


async def test_a_delete_whose_server_was_killed_before_it_was_on_disk_is_made_sure_of_by_the_next(
    tmp_path: Path, syncs: Syncs
) -> None:
    store = open_url(str(tmp_path))
    await store.put_bytes("a/gone", b"x")
    (tmp_path / "a" / "gone").unlink()  # as far as the killed one came
    await store.delete("a/gone")
    assert syncs.of(tmp_path / "a") == set()
    await store.delete("never/was")  # nor is its folder
