"""Submissions under kill -9 of workers, servers, PostgreSQL and the store, then the audit."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import asyncpg
import grpc.aio
from frontrow.ingest.v1 import ingest_job_pb2, ingest_service_pb2
from frontrow.review.v1 import media_service_pb2

from libs.common.objects import open_url
from libs.common.testing import eventually
from tests.integration.ingest.site import Site, image_site
from tests.soak.ingest import audit
from tests.soak.ingest.fleet import ACTOR, Fleet
from tests.soak.ingest.model import Article, Plan, Submission
from tests.soak.task.fleet import Machine

SUBMITTERS = 8
PASSING = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.INTERNAL,
}


@dataclass(frozen=True)
class Scale:
    """How large a campaign is: submissions, faults of each kind, the longest pauses and outages."""

    submissions: int
    worker_kills: int
    server_kills: int
    database_kills: int
    store_kills: int
    clean_ups: int = 0
    workers: int = 4
    store: str = "folder"
    lease_seconds: float = 6.0
    longest_pause_seconds: float = 1.0
    longest_outage_seconds: float = 4.0
    end_seconds: float = 120.0
    seed: int = 0


@dataclass
class Report:
    """What a campaign came to."""

    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    jobs: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    given_up: int = 0
    live_rows: int = 0
    objects: int = 0
    cleaned: int = 0
    slowest_serving_seconds: float = 0.0

    @property
    def died_with_their_worker(self) -> int:
        """Runs that a worker's death ended; that their jobs all ended as they must, says the audit."""
        return self.runs["lost STALE"] + self.runs["lost ABANDONED"]


class Campaign:
    """One run."""

    def __init__(self, scale: Scale, fleet: Fleet | None = None, report: Report | None = None) -> None:
        self.scale = scale
        self.plan = Plan(scale.submissions, scale.seed)
        self.fleet = fleet or Fleet(
            store=scale.store, workers=scale.workers, lease_seconds=scale.lease_seconds
        )
        self.report = report or Report(scale.seed)
        self._began = 0.0
        self._random = random.Random(scale.seed)
        self._jobs: dict[str, Article] = {}
        self._of_request: dict[str, str] = {}

    async def run(self) -> Report:
        """Submit everything while everything is killed, wait until all jobs have ended, audit."""
        fleet = self.fleet
        try:
            async with image_site() as site:
                await fleet.start()
                self._serve(site)
                self._began = time.monotonic()
                await self.storm(site.address)
                await self._all_ended()
                self.report.slowest_serving_seconds = await fleet.serving(60)
                await self._audit()
        except BaseException:
            for name, text in fleet.logs().items():
                print(f"--- {name}\n{text[-3000:]}")
            raise
        finally:
            await fleet.close()
        return self.report

    def _serve(self, site: Site) -> None:
        for article in self.plan.articles:
            for place, picture in enumerate(article.pictures):
                site.put(f"{article.number}/{place}.jpg", picture.body(), Content_Type="image/jpeg")

    async def storm(self, site: str) -> None:
        """Submit everything while everything is killed."""
        await asyncio.gather(self.submit_all(site), self._rage())

    async def submit_all(self, site: str) -> None:
        waiting = iter(enumerate(self.plan.submissions))

        async def submitter() -> None:
            for number, submission in waiting:
                await self.pace(number)
                await self.submit(submission, site)

        await asyncio.gather(*(submitter() for _ in range(SUBMITTERS)))

    async def pace(self, number: int) -> None:
        """Wait till a submission's time has come; here each follows the last one's answer."""

    async def submit(self, submission: Submission, site: str) -> None:
        """Submit one, and remember its job."""
        gallery = submission.article.gallery(site)
        answer = await self.fleet.spider.submit(gallery, request_id=submission.request_id)
        first = self._of_request.setdefault(submission.request_id, answer.job_id)
        assert first == answer.job_id, "one request id made two jobs"
        self._jobs[answer.job_id] = submission.article

    async def job_ended(self, submission: Submission, timeout_seconds: float) -> None:
        """Wait till the job of a submission has ended."""
        request = ingest_service_pb2.GetIngestJobRequest(job_id=self._of_request[submission.request_id])

        async def ended() -> bool:
            try:
                job = (await self.fleet.ingest.GetIngestJob(request, timeout=5)).job
            except grpc.aio.AioRpcError:
                return False
            return job.status in {
                ingest_job_pb2.INGEST_JOB_STATUS_DONE,
                ingest_job_pb2.INGEST_JOB_STATUS_FAILED,
            }

        await eventually(ended, timeout_seconds)

    async def _rage(self) -> None:
        scale = self.scale
        faults: list[Callable[[], Awaitable[None]]] = [self._kill_worker] * scale.worker_kills
        faults += [self._kill_server] * scale.server_kills + [self._kill_postgres] * scale.database_kills
        faults += [self._kill_store] * scale.store_kills + [self._clean_up] * scale.clean_ups
        self._random.shuffle(faults)
        for fault in faults:
            await asyncio.sleep(self._random.uniform(0, scale.longest_pause_seconds))
            await fault()
            self.report.faults[fault.__name__.strip("_")] += 1  # type: ignore[attr-defined]

    async def _kill_worker(self) -> None:
        await self._kill_one(self.fleet.workers)

    async def _kill_server(self) -> None:
        await self._kill_one(self.fleet.servers)

    async def _kill_one(self, machines: Sequence[Machine]) -> None:
        """Kill one that lives: those that an earlier fault ended may not have been started again yet."""
        living = await eventually(lambda: [machine for machine in machines if machine.alive], 30)
        await self._random.choice(living).kill()

    async def _kill_postgres(self) -> None:
        await self.fleet.postgres.kill()
        await asyncio.sleep(self._random.uniform(0, self.scale.longest_outage_seconds))
        await self.fleet.postgres.begin_again()

    async def _kill_store(self) -> None:
        await self.fleet.store.go()
        await asyncio.sleep(self._random.uniform(0, self.scale.longest_outage_seconds))
        await self.fleet.store.come_back()

    async def _clean_up(self) -> media_service_pb2.CleanUpMediaResponse | None:
        request = media_service_pb2.CleanUpMediaRequest(apply=True)
        try:
            return await self.fleet.media.CleanUpMedia(request, metadata=ACTOR, timeout=30)
        except grpc.aio.AioRpcError as error:
            if error.code() not in PASSING:
                raise
            return None

    async def _all_ended(self) -> None:
        """Wait till no job is open; those given up as killed too often are run again, as by a person."""
        while True:
            await self._clean_up_after_the_killed()
            await eventually(self._none_open, self.scale.end_seconds)
            connection = await asyncpg.connect(self.fleet.postgres.direct_url)
            given_up = await audit.abandoned(connection)
            await connection.close()
            if not given_up:
                return
            self.report.given_up += len(given_up)
            for first in range(0, len(given_up), 100):
                request = ingest_service_pb2.RetryIngestJobsRequest(job_ids=given_up[first : first + 100])
                await self.fleet.ingest.RetryIngestJobs(request, metadata=ACTOR, timeout=30)

    async def _clean_up_after_the_killed(self) -> None:
        """Let an hour pass, then clean up: what a killed clean-up was at is its own till then."""
        connection = await asyncpg.connect(self.fleet.postgres.direct_url)
        await connection.execute(
            "UPDATE review.media SET touched_at = touched_at - interval '1 hour',"
            " marked_at = marked_at - interval '1 hour' WHERE state = 'deleting'"
        )
        await connection.close()
        await eventually(self._cleaned, 60)

    async def _none_open(self) -> bool:
        query = "SELECT count(*) FROM ingest.jobs WHERE status IN ('pending', 'processing')"
        try:
            connection = await asyncpg.connect(self.fleet.postgres.direct_url)
            left = await connection.fetchval(query)
            await connection.close()
        except (OSError, asyncpg.PostgresError):
            return False
        return bool(left == 0)

    async def _audit(self) -> None:
        report, store = self.report, open_url(self.fleet.store.url)
        connection = await asyncpg.connect(self.fleet.postgres.direct_url)
        makers = await audit.check_drafts(connection, self.plan)
        report.jobs = await audit.check_jobs(connection, self._jobs, makers)
        report.runs = await audit.check_runs(connection, report.faults["kill_worker"])
        report.live_rows = await audit.check_media(connection, store)
        for _ in range(2):
            await eventually(self._cleaned, 60)
        wanted = {key for keys in self.plan.drafts().values() for key in keys}
        report.objects = await audit.check_objects(connection, store, wanted)
        assert await audit.check_media(connection, store) == report.objects
        await connection.close()
        self._check_logs()

    def _check_logs(self) -> None:
        broken = {name for name, text in self.fleet.logs().items() if "handler_raised" in text}
        assert not broken, f"a handler met what it doesn't know, see the logs of {broken}"

    async def _cleaned(self) -> bool:
        answer = await self._clean_up()
        self.report.cleaned += 0 if answer is None else answer.deleted_count
        return answer is not None
