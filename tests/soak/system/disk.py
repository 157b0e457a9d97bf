"""Small disks that fill up: one with the objects and the workers' scratch, one for PostgreSQL."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tests.soak.ingest.stores import Folder

_BLOCK = bytes(1 << 20)


class SmallDisk:
    """A file system in memory with a size of its own. Needs a user who may mount."""

    def __init__(self, place: Path, size_bytes: int) -> None:
        self.place = place
        self._size_bytes = size_bytes
        self._filler = place / "filler"

    async def start(self) -> None:
        """Mount it."""
        self.place.mkdir()
        size = f"size={self._size_bytes},mode=0755"
        await _run("mount", "-t", "tmpfs", "-o", size, "frontrow-soak", str(self.place))

    async def fill(self) -> None:
        """Take what is left of it."""
        await asyncio.to_thread(self._fill)

    def _fill(self) -> None:
        with self._filler.open("ab", buffering=0) as file:
            try:
                while file.write(_BLOCK):
                    pass
            except OSError:
                return

    def free(self) -> None:
        """Give it back."""
        self._filler.unlink(missing_ok=True)

    def used_bytes(self) -> int:
        """Return how much is used."""
        found = os.statvfs(self.place)
        return (found.f_blocks - found.f_bfree) * found.f_frsize

    async def stop(self) -> None:
        """Unmount it, whoever still has a file open there."""
        if self.place.is_mount():
            await _run("umount", "--lazy", str(self.place))


class FolderOnDisk(Folder):
    """The folder store on a disk that can be full."""

    def __init__(self, disk: SmallDisk) -> None:
        super().__init__(disk.place)
        self.disk = disk

    async def start(self) -> None:
        """See Outage."""
        await self.disk.start()
        await super().start()


async def _run(*argv: str) -> None:
    process = await asyncio.create_subprocess_exec(*argv, stderr=asyncio.subprocess.PIPE)
    _, said = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{argv[0]}: {said.decode().strip()}; this part needs a user who may mount")
