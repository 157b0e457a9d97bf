"""Galleries and recordings at once while everything is killed, cut, filled and put out of time."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import asyncpg

from libs.common.objects import open_url
from libs.common.testing import eventually
from tests.soak.ingest import audit
from tests.soak.ingest.campaign import Campaign, Report, Scale
from tests.soak.system import accounts, clock
from tests.soak.system.fleet import LEASE_SECONDS, Sample, SystemFleet
from tests.soak.system.recordings import Editors

SUBMISSIONS_A_SECOND = 2.0
SECONDS_A_RECORDING = 20.0
LONGEST_PAUSE_SECONDS = 6.0
SAMPLE_SECONDS = 2.0
# Longer than a lease, so that a clock alone would call every run lost; far from a signature's five minutes.
JUMP_SECONDS = 25.0
FARTHEST_SECONDS = 100.0


@dataclass
class SystemReport(Report):
    """What a campaign over the whole came to."""

    recordings: int = 0
    clips: int = 0
    run_again: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    megabytes: dict[str, tuple[int, int]] = field(default_factory=dict)
    idle_after_seconds: float = 0.0


class SystemCampaign(Campaign):
    """One run of so many seconds. `content` is the recording that editors bring, also found at `url`."""

    def __init__(self, seconds: float, seed: int, *, speech_url: str, content: bytes, url: str) -> None:
        scale = Scale(
            submissions=round(seconds * SUBMISSIONS_A_SECOND), worker_kills=0, server_kills=0,
            database_kills=0, store_kills=0, workers=0, end_seconds=600.0, longest_outage_seconds=6.0,
            seed=seed,
        )  # fmt: skip
        super().__init__(scale, SystemFleet(speech_url), SystemReport(seed))
        self.fleet: SystemFleet
        self.report: SystemReport
        self._seconds = seconds
        self._editors = Editors(self.fleet, content, url, random.Random(seed))
        self._samples: list[Sample] = []
        self._ahead_seconds = 0.0
        self._raging = True

    async def storm(self, site: str) -> None:
        """Let spiders, editors and faults loose for the time there is."""
        await self._editors.bring_first()
        self._began = time.monotonic()
        sampling = asyncio.create_task(self._sample())
        count = max(2, round(self._seconds / SECONDS_A_RECORDING))
        brought = asyncio.create_task(self._editors.bring(count, SECONDS_A_RECORDING))
        raging = asyncio.create_task(self._rage())
        try:
            await asyncio.gather(self.submit_all(site), raging)
            await self._calm()
            await brought
        finally:
            for task in (sampling, brought, raging):
                task.cancel()

    async def pace(self, number: int) -> None:
        """See Campaign: an even stream of submissions."""
        await asyncio.sleep(self._began + number / SUBMISSIONS_A_SECOND - time.monotonic())

    async def _sample(self) -> None:
        while True:
            self._samples += self.fleet.sample(time.monotonic())
            await asyncio.sleep(SAMPLE_SECONDS)

    @property
    def kinds_of_faults(self) -> list[str]:
        """Return the names under which the report counts faults."""
        return [_name(fault) for fault, _ in self._faults()]

    def _faults(self) -> list[tuple[Callable[[], Awaitable[object]], int]]:
        """Return each kind of fault and how often it comes, once each has been."""
        return [
            (self._kill_worker, 8), (self._kill_server, 5), (self._kill_postgres, 2),
            (self._restart_postgres, 1), (self._kill_store, 2), (self._clean_up, 2), (self._cut_network, 4),
            (self._cut_database, 2), (self._hold_network, 3), (self._jump_clock, 3), (self._fill_objects, 2),
            (self._fill_database, 2),
        ]  # fmt: skip

    async def _rage(self) -> None:
        faults = self._faults()
        deck = [fault for fault, _ in faults]  # each once, then as often as it weighs
        ends = self._began + self._seconds
        while time.monotonic() < ends:
            self._random.shuffle(deck)
            for fault in deck:
                await asyncio.sleep(self._random.uniform(0, LONGEST_PAUSE_SECONDS))
                if time.monotonic() >= ends:
                    break
                await fault()
                self.report.faults[_name(fault)] += 1
            deck = [fault for fault, weight in faults for _ in range(weight)]

    async def _calm(self) -> None:
        """Leave everything as it should be: whatever was filled is free, whatever was held flows."""
        self.fleet.objects_disk.free()
        self.fleet.database_disk.free()
        for proxy in self.fleet.proxies.values():
            proxy.flow()
        self._calm_at = time.monotonic()

    async def _restart_postgres(self) -> None:
        await self.fleet.postgres.end(crash=False)
        await asyncio.sleep(self._random.uniform(0, self.scale.longest_outage_seconds))
        await self.fleet.postgres.begin_again()

    async def _cut_network(self) -> None:
        self._random.choice(list(self.fleet.proxies.values())).cut()

    async def _cut_database(self) -> None:
        assert self.fleet.postgres.proxy is not None
        self.fleet.postgres.proxy.cut()

    async def _hold_network(self) -> None:
        """Hold up what one server says and hears, shorter or longer than a lease."""
        proxy = self._random.choice(list(self.fleet.proxies.values()))
        proxy.hold()
        await asyncio.sleep(LEASE_SECONDS * self._random.uniform(0.3, 1.5))
        proxy.flow()

    async def _jump_clock(self) -> None:
        seconds = self._random.choice([-1, 1]) * self._random.uniform(2, JUMP_SECONDS)
        if abs(self._ahead_seconds + seconds) > FARTHEST_SECONDS:
            seconds = -seconds
        await clock.jump(self.fleet.postgres.direct_url, seconds)
        self._ahead_seconds += seconds

    async def _fill_objects(self) -> None:
        """Fill the disk that the objects and the workers' scratch are on, for a while."""
        await self.fleet.objects_disk.fill()
        await asyncio.sleep(self._random.uniform(1, self.scale.longest_outage_seconds))
        self.fleet.objects_disk.free()

    async def _fill_database(self) -> None:
        """Fill PostgreSQL's disk for a while; it may give up, and comes back once there is room."""
        await self.fleet.database_disk.fill()
        await asyncio.sleep(self._random.uniform(1, self.scale.longest_outage_seconds))
        self.fleet.database_disk.free()
        await eventually(self._database_is_back, 60)

    async def _database_is_back(self) -> bool:
        """Tell whether PostgreSQL answers; start it again if it has given up."""
        if not self.fleet.postgres.alive:
            await self.fleet.postgres.begin_again()
        try:
            connection = await asyncpg.connect(self.fleet.postgres.direct_url)
        except (OSError, asyncpg.PostgresError):
            return False
        await connection.close()
        return True

    async def _all_ended(self) -> None:
        await super()._all_ended()
        await eventually(lambda: accounts.nothing_open(self.fleet), self.scale.end_seconds)
        await eventually(self.fleet.healthy, 60)
        await eventually(lambda: accounts.idle(self.fleet), 60)
        self.report.idle_after_seconds = time.monotonic() - self._calm_at

    async def _audit(self) -> None:
        report, fleet = self.report, self.fleet
        connection = await asyncpg.connect(fleet.postgres.direct_url)
        makers = await audit.check_drafts(connection, self.plan)
        report.jobs = await audit.check_jobs(connection, self._jobs, makers)
        report.live_rows = await audit.check_media(connection, open_url(fleet.store.url))
        await connection.close()
        report.runs = await accounts.check_runs(fleet)
        report.reasons = await accounts.check_explained(fleet)
        report.clips = await self._editors.check()
        report.recordings = len(self._editors.recordings)
        report.run_again = sum(recording.run_again for recording in self._editors.recordings)
        report.megabytes = accounts.check_memory(self._samples)
        self._check_logs()


def _name(fault: Callable[[], Awaitable[object]]) -> str:
    return fault.__name__.strip("_")
