"""Races about concurrency limits over several servers: policies come and change while all else goes on."""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import asyncpg
import grpc.aio
from frontrow.task.v1 import queue_pb2
from frontrow.task.v1 import task_service_pb2 as pb
from google.protobuf.message import Message

from libs.common.lane import Connection
from libs.common.testing import eventually
from tests.integration.task.service import Tasks, completed, new_type
from tests.soak.task.racers import CALL_SECONDS, UNHEARD, Racer

RACERS = 8
LOST_CLAIM_SECONDS = 2.0
"""What the servers are to take a claim for lost after, so that what nobody heard of is back soon."""
_LANES = [f"frontrow-task-{name}" for name in ("work", "work", "create", "beat", "bulletin")]
_COUNT = """
SELECT count(*) FROM task.tasks WHERE status = 'processing' AND type = $1
"""
_CUT = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = $1
"""

Duty = Callable[[Connection], Awaitable[None]]


class _Queue:
    """A type, its limit in the end, what holds of it now, and the most runs it may have.

    `target` is what the policy allows. When it was set more may have run: then no more than those.
    """

    def __init__(self, size: int) -> None:
        self.type = new_type()
        self.size = size
        self.target: float = math.inf
        self.most: float = math.inf
        self.changes = 0


class LimitRaces:
    """Workers that claim, wait, end and leave, each call at another server, while policies change.

    In each round the types are new and have no policy, until at some moment one is set, which is then
    lowered, raised, paused and lifted. A breach is more runs at once than the limit, or than there were when
    it was set: in the table, and by what workers hold for certain. `cuts`: now and then the connections of
    the servers are cut, so that answers are lost on both sides of a commit.
    """

    def __init__(
        self, servers: Sequence[Tasks], url: str, limits: Sequence[int], *, seed: int, cuts: bool = True
    ) -> None:
        self._servers, self._url, self._sizes, self._cuts = servers, url, limits, cuts
        self._random = random.Random(seed)
        self._queues: list[_Queue] = []
        self._racers: list[Racer] = []
        self._until = 0
        self.calls = 0
        self.claimed = 0
        self.slowest_seconds = 0.0
        self.most: Counter[int] = Counter()
        self.seen: Counter[str] = Counter()

    async def run(self, calls: int, *, rounds: int = 1) -> None:
        """Make so many calls in so many rounds; after each one no room may be lost."""
        for number in range(1, rounds + 1):
            self._queues = [_Queue(size) for size in self._sizes]
            types = [queue.type for queue in self._queues]
            self._racers = [Racer(f"{types[0]}-{n}", types, self._random) for n in range(RACERS)]
            self._until = calls * number // rounds
            await self._round()

    async def _round(self) -> None:
        quiet, over = asyncio.Event(), asyncio.Event()
        beating = [partial(self._beat, racer) for racer in self._racers]
        meddling = [self._govern, self._create, *([self._cut] if self._cuts else [])]
        async with asyncio.TaskGroup() as lasting:
            for duty in (*beating, self._look):
                lasting.create_task(self._go_on(duty, over))
            async with asyncio.TaskGroup() as passing:
                for meddle in meddling:
                    passing.create_task(self._go_on(meddle, quiet))
                await asyncio.gather(*map(self._race, self._racers))
                quiet.set()
            await self._no_room_is_lost()
            over.set()

    async def _go_on(self, duty: Duty, end: asyncio.Event) -> None:
        """Do something again and again, over a connection of its own; a call once begun is answered."""
        connection = await asyncpg.connect(self._url)
        try:
            while not end.is_set():
                await duty(connection)
        finally:
            connection.terminate()

    def _server(self) -> Tasks:
        return self._random.choice(self._servers)

    async def _race(self, racer: Racer) -> None:
        while self.calls < self._until:
            self.calls += 1
            claimed, took = await racer.act(self._server())
            self.claimed += claimed
            self.slowest_seconds = max(self.slowest_seconds, took)
            held = Counter(run.type for one in self._racers for run in one.held)
            for queue in self._queues:
                assert held[queue.type] <= queue.most, (held, vars(queue))

    async def _beat(self, racer: Racer, _: Connection) -> None:
        await racer.beat(self._server())
        await asyncio.sleep(LOST_CLAIM_SECONDS / 3)

    async def _create(self, _: Connection) -> None:
        """Create single tasks, which begin at once if somebody waits, and now and then a batch."""
        many = 30 if self._random.random() < 0.1 else 1
        for queue in self._queues:
            await self._add(queue, many)
        await asyncio.sleep(self._random.uniform(0, 0.03))

    async def _add(self, queue: _Queue, count: int) -> None:
        requests = [
            pb.CreateTaskRequest(
                type=queue.type, request_id=f"{self._random.getrandbits(64)}", max_attempts=100
            )
            for _ in range(count)
        ]
        if count == 1:
            await self._until_answered("CreateTask", requests[0])
        else:
            await self._until_answered("BatchCreateTasks", pb.BatchCreateTasksRequest(requests=requests))

    async def _cut(self, connection: Connection) -> None:
        await asyncio.sleep(self._random.uniform(0.2, 0.8))
        self.seen["cuts"] += await connection.fetchval(_CUT, self._random.choice(_LANES))

    async def _govern(self, connection: Connection) -> None:
        """Set a limit, at first in the middle of everything, and change it now and then."""
        await asyncio.sleep(self._random.uniform(0, 0.4))
        queue = self._random.choice(self._queues)
        limit = self._random.choice([queue.size, queue.size, queue.size + 2, 1, 0])
        await self._set(connection, queue, limit=limit, paused=self._random.random() < 0.1)

    async def _set(self, connection: Connection, queue: _Queue, *, limit: int, paused: bool) -> None:
        target = 0.0 if paused else limit or math.inf
        queue.changes += 1
        queue.most = max(queue.most, target)
        request = pb.SetQueuePolicyRequest(
            type=queue.type, policy=queue_pb2.QueuePolicy(concurrency_limit=limit, paused=paused)
        )
        request.update_mask.paths.extend(["concurrency_limit", "paused"])
        await self._until_answered("SetQueuePolicy", request)
        # From here on no more begin than the policy allows; what ran at that moment may go on.
        queue.most = max(target, await connection.fetchval(_COUNT, queue.type))
        queue.target = target
        queue.changes += 1
        self.seen["policies"] += 1

    async def _look(self, connection: Connection) -> None:
        """Count what runs, as one look at the table sees it."""
        for queue in self._queues:
            changes, most = queue.changes, queue.most
            count = await connection.fetchval(_COUNT, queue.type)
            if changes % 2 or changes != queue.changes:
                continue  # a change was under way
            assert count <= most, (count, vars(queue))
            self.seen["looks"] += 1
            if count <= queue.target:
                queue.most = queue.target
            if queue.most == queue.target == queue.size:
                self.most[queue.size] = max(self.most[queue.size], count)
        await asyncio.sleep(0.005)

    async def _until_answered(self, method: str, request: Message) -> None:
        """Make a call at some server, again as long as none answers."""
        while True:
            try:
                await getattr(self._server().stub, method)(request, timeout=CALL_SECONDS)
            except grpc.aio.AioRpcError as error:
                if error.code() not in UNHEARD:
                    raise
                self.seen["unanswered"] += 1
                await asyncio.sleep(0.02)
            else:
                return

    async def _no_room_is_lost(self) -> None:
        """End everything; then each type must again give out as many tasks as its limit, and no more."""
        connection = await asyncpg.connect(self._url)
        for queue in self._queues:
            await self._set(connection, queue, limit=queue.size, paused=False)
        for racer in self._racers:
            while not racer.idle:
                await racer.end_all(self._server())
        for queue in self._queues:
            # What nobody heard of is given back when its worker's beats have left it out.
            await eventually(partial(self._is_empty, connection, queue), 30)
            await self._add(queue, 30)
            runs = (await self._servers[-1].claim(queue.type, 20)).tasks
            assert len(runs) == queue.size
            await self._servers[0].finish(*map(completed, runs))
        await connection.close()

    async def _is_empty(self, connection: Connection, queue: _Queue) -> bool:
        return await connection.fetchval(_COUNT, queue.type) == 0
