"""A kill at every step between the claim and the commit, of the worker and of PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from tests.soak.ingest.campaign import Campaign, Scale
from tests.soak.ingest.dying_worker import STEPS
from tests.soak.ingest.model import Submission

EVERY_STEP = [(when, name) for name in STEPS for when in ("before", "after")]


@dataclass(frozen=True)
class Death:
    """Who is killed, when, at which of the worker's calls."""

    victim: str
    when: str
    step: str


class Steps(Campaign):
    """One article for each death; afterwards a worker that lives finishes them all."""

    def __init__(self, deaths: Sequence[Death], *, store: str) -> None:
        super().__init__(Scale(submissions=0, worker_kills=0, server_kills=0, database_kills=0, store_kills=0,
                               workers=0, store=store))  # fmt: skip
        self._deaths = deaths
        while len(self.plan.articles) < len(deaths):
            self.plan.add_good()

    async def storm(self, site: str) -> None:
        """Let each death happen in turn, then bring in a worker that nothing befalls."""
        for death, submission in zip(self._deaths, self.plan.submissions, strict=True):
            await self._die(death, submission, site)
        await self.fleet.add_worker()

    async def _die(self, death: Death, submission: Submission, site: str) -> None:
        await self.submit(submission, site)
        fleet = self.fleet
        pid = 0 if death.victim == "worker" else fleet.postgres.pid
        arguments = (death.when, death.step, str(pid))
        worker = await fleet.run("tests.soak.ingest.dying_worker", "dying", *arguments)
        assert worker.process is not None
        if death.victim == "worker":
            await asyncio.wait_for(worker.process.wait(), 60)
            self.report.faults["kill_worker"] += 1
            return
        await asyncio.wait_for(fleet.postgres.ended(), 60)
        self.report.faults["kill_postgres"] += 1
        await fleet.postgres.begin_again()
        await self.job_ended(submission, 90)
        await worker.end(60)  # not killed: its task may not have heard yet that the job is done
