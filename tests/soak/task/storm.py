"""Work under faults: tasks are created, run, cancelled and retried while everything is killed and cut."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field

import asyncpg
import grpc.aio
from frontrow.task.v1 import task_service_pb2 as pb
from google.protobuf.message import Message

from libs.common.ids import uuid7
from libs.common.testing import eventually
from tests.soak.task import audit
from tests.soak.task.fleet import LEASE_SECONDS, Fleet, Machine

_PLANS = ["complete"] * 16 + ["fail", "fail once", "fail once", "release once"]
BATCH = 25
GOODBYE_SECONDS = 20.0
_PASSING = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}


@dataclass(frozen=True)
class Plan:
    """How large a storm is.

    `goodbyes` are deaths that were asked for. `work_seconds` is the longest a handler takes; pauses lie
    between two faults; of the outages of PostgreSQL the first takes `outage_seconds`, the others up to 2 s.
    """

    tasks: int
    kills: int
    goodbyes: int
    restarts: int
    cuts: int
    servers: int = 2
    workers: int = 3
    slots: int = 8
    work_seconds: float = 0.3
    longest_pause_seconds: float = 0.6
    outage_seconds: float = 1.0
    end_seconds: float = 60.0
    seed: int = 0


@dataclass
class Report:
    """What a storm came to."""

    ended: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    runs_lost: Counter[str] = field(default_factory=Counter)
    serving_again_seconds: list[float] = field(default_factory=list)


class Storm:
    """One run."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.fleet = Fleet(servers=plan.servers, workers=plan.workers, slots=plan.slots)
        self.report = Report()
        self._random = random.Random(plan.seed)
        self._created: list[str] = []
        self._retried = 0

    async def run(self) -> Report:
        """Let the storm rage, wait until every task has ended, check everything."""
        fleet = self.fleet
        try:
            await fleet.start()
            connection = await asyncpg.connect(fleet.postgres.direct_url)
            await connection.execute(audit.INSTALL)
            await connection.close()
            raging = asyncio.ensure_future(self._rage())
            meddling = asyncio.ensure_future(self._meddle(raging))
            await self._create(raging)
            await asyncio.gather(raging, meddling)
            await eventually(self._all_ended, self.plan.end_seconds)
            effects = audit.read_effects(fleet.effects)
            url = fleet.postgres.direct_url
            self.report.ended = await audit.check(url, fleet.kind, self._created, self._retried, effects)
            self.report.runs_lost = await self._lost_runs()
        finally:
            await fleet.close()
        return self.report

    async def _create(self, raging: asyncio.Future[None]) -> None:
        """Create all tasks, in batches that are sent again until they are answered, spread over the storm."""
        left = self.plan.tasks
        while left:
            batch = min(left, BATCH)
            left -= batch
            requests = [self._request() for _ in range(batch)]
            await self._until_answered("BatchCreateTasks", pb.BatchCreateTasksRequest(requests=requests))
            self._created += [request.task_id for request in requests]
            if not raging.done():
                slots = self.plan.workers * self.plan.slots
                await asyncio.sleep(batch * self.plan.work_seconds / 2 / slots)

    def _request(self) -> pb.CreateTaskRequest:
        request = pb.CreateTaskRequest(task_id=str(uuid7()), type=self.fleet.kind)
        seconds = self._random.uniform(0, self.plan.work_seconds)
        request.payload.update({"plan": self._random.choice(_PLANS), "seconds": seconds})
        return request

    async def _meddle(self, raging: asyncio.Future[None]) -> None:
        """Cancel and retry tasks now and then, as people do."""
        while not raging.done():
            await asyncio.sleep(self.plan.longest_pause_seconds / 4)
            if not self._created:
                continue
            task_id = self._random.choice(self._created[-200:])
            if self._random.random() < 0.5:
                await self._until_answered("CancelTask", pb.CancelTaskRequest(task_id=task_id))
            else:
                # Counted before it is known to have happened: an answer may be lost.
                self._retried += 1
                await self._until_answered("RetryTask", pb.RetryTaskRequest(task_id=task_id))

    async def _until_answered(self, method: str, request: Message) -> None:
        """Make a call at some server, again as long as none answers; a refusal counts as an answer."""
        while True:
            stub = self._random.choice(self.fleet.clients).stub
            try:
                await getattr(stub, method)(request, timeout=5)
            except grpc.aio.AioRpcError as error:
                if error.code() in _PASSING:
                    await asyncio.sleep(0.05)
                    continue
                if error.code() != grpc.StatusCode.FAILED_PRECONDITION:
                    raise
            return

    async def _rage(self) -> None:
        plan = self.plan
        faults = [self._kill] * plan.kills + [self._say_goodbye] * plan.goodbyes
        faults += [self._restart_postgres] * plan.restarts
        faults += [self._random.choice([self._cut, self._hold, self._cut_database]) for _ in range(plan.cuts)]
        faults += [self._cut_listeners] * (plan.cuts // 3 + 1)
        self._random.shuffle(faults)
        for fault in faults:
            await asyncio.sleep(self._random.uniform(0, plan.longest_pause_seconds))
            await fault()
            self.report.faults[fault.__name__.strip("_")] += 1

    async def _kill(self) -> None:
        """Kill a server or a worker with -9; another one takes its place at once."""
        victim = self._victim()
        await victim.kill()
        await victim.start()

    async def _say_goodbye(self) -> None:
        """Let a server or a worker end as it should, whatever else goes on; another one takes its place."""
        victim = self._victim()
        await victim.end(GOODBYE_SECONDS)
        await victim.start()

    def _victim(self) -> Machine:
        kind = self._random.choice([self.fleet.servers, self.fleet.workers, self.fleet.workers])
        return self._random.choice(kind)

    async def _cut(self) -> None:
        self._random.choice(self.fleet.proxies).cut()

    async def _cut_database(self) -> None:
        assert self.fleet.postgres.proxy is not None
        self.fleet.postgres.proxy.cut()

    async def _cut_listeners(self) -> None:
        await self.fleet.postgres.terminate("%bulletin")

    async def _hold(self) -> None:
        """Hold up what one server says and hears for longer than a lease, then cut it or let it flow."""
        proxy = self._random.choice(self.fleet.proxies)
        proxy.hold()
        await asyncio.sleep(LEASE_SECONDS * self._random.uniform(0.5, 1.3))
        if self._random.random() < 0.5:
            proxy.cut()
        proxy.flow()

    async def _restart_postgres(self) -> None:
        """Restart the database under servers that run on; they must serve again by themselves."""
        await self.fleet.serving(30)
        processes = [server.process for server in self.fleet.servers]
        how = self._random.choice(["shut down", "crash", "kill"])
        if how == "kill":
            await self.fleet.postgres.kill()
        else:
            await self.fleet.postgres.end(crash=how == "crash")
        first = not self.report.serving_again_seconds
        await asyncio.sleep(self.plan.outage_seconds if first else self._random.uniform(0, 2))
        await self.fleet.postgres.begin_again()
        self.report.serving_again_seconds.append(await self.fleet.serving(30))
        assert [server.process for server in self.fleet.servers] == processes
        assert all(server.alive for server in self.fleet.servers)

    async def _all_ended(self) -> bool:
        connection = await asyncpg.connect(self.fleet.postgres.direct_url)
        left = await connection.fetchval(
            "SELECT count(*) FROM task.tasks WHERE type = $1 AND completed_at IS NULL", self.fleet.kind
        )
        await connection.close()
        return bool(left == 0)

    async def _lost_runs(self) -> Counter[str]:
        connection = await asyncpg.connect(self.fleet.postgres.direct_url)
        rows = await connection.fetch(
            "SELECT reason, count(*) AS n FROM task.task_runs "
            "WHERE ended_as = 'lost' OR reason = 'REPLY_LOST' GROUP BY 1"
        )
        await connection.close()
        return Counter({row["reason"]: row["n"] for row in rows})
