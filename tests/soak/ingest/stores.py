"""The object stores of a campaign, each with its way to be gone for a while."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

from tests.integration.objects.servers import await_bucket, store_url, weed_of
from tests.soak.task.fleet import Machine


class Outage(Protocol):
    """A store that can go away and come back."""

    url: str

    async def start(self) -> None:
        """Make it ready."""

    async def go(self) -> None:
        """Go away without a word."""

    async def come_back(self) -> None:
        """Be there again, with every object that was durable."""

    async def stop(self) -> None:
        """End it."""


class Folder:
    """A local folder on a disk that is unmounted under its users."""

    def __init__(self, folder: Path) -> None:
        self._disk, self._mounted, self._elsewhere = folder / "disk", folder / "objects", folder / "unmounted"
        self.url = str(self._mounted)

    async def start(self) -> None:
        """See Outage."""
        self._disk.mkdir()
        self._elsewhere.touch()  # no folder can be made below a file
        self._mount(self._disk)

    async def go(self) -> None:
        """See Outage."""
        self._mount(self._elsewhere)

    async def come_back(self) -> None:
        """See Outage."""
        self._mount(self._disk)

    async def stop(self) -> None:
        """See Outage."""

    def _mount(self, what: Path) -> None:
        link = self._mounted.with_name("objects.next")
        link.symlink_to(what)
        link.replace(self._mounted)


class SeaweedFs:
    """A SeaweedFS process that is killed with -9."""

    def __init__(self, folder: Path) -> None:
        place = folder / "weed"
        place.mkdir()
        self._weed = weed_of(place)
        self._machine = Machine(self._weed.argv, place / "weed.out", self._weed.environment)
        self.url = store_url(self._weed.endpoint, "campaign")

    async def start(self) -> None:
        """See Outage."""
        await self._machine.start()
        await asyncio.to_thread(await_bucket, self._weed.endpoint, lambda: self._machine.alive)

    async def go(self) -> None:
        """See Outage."""
        await self._machine.kill()

    async def come_back(self) -> None:
        """See Outage."""
        await self.start()

    async def stop(self) -> None:
        """See Outage."""
        await self._machine.kill()


def store_of(kind: str, folder: Path) -> Outage:
    """Return the store of a name: `folder` or `seaweedfs`."""
    return Folder(folder) if kind == "folder" else SeaweedFs(folder)
