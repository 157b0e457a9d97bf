"""Races about a concurrency limit over several server instances."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence

from frontrow.task.v1 import task_pb2, work_pb2
from frontrow.task.v1 import task_service_pb2 as pb

from tests.integration.task.service import Tasks, completed, failed, new_type, released

CLAIMERS = 6


class LimitRaces:
    """Workers that claim and end at once, of one or two limited types, each call at another server.

    A run counts from the answer of its claim to the sending of its end: what counts here is live for certain,
    so more of it than the limit at any moment is a breach.
    """

    def __init__(self, servers: Sequence[Tasks], limits: Sequence[int], seed: int) -> None:
        self._servers = servers
        self._random = random.Random(seed)
        self._limits = {new_type(): limit for limit in limits}
        self._held: list[task_pb2.Task] = []
        self._live: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.slowest_seconds = 0.0
        self.claimed = 0

    async def run(self, races: int) -> None:
        """Run so many races."""
        types = list(self._limits)
        for kind, limit in self._limits.items():
            request = pb.SetQueuePolicyRequest(type=kind)
            request.policy.concurrency_limit = limit
            request.update_mask.paths.append("concurrency_limit")
            await self._servers[0].stub.SetQueuePolicy(request, timeout=20)
        for race in range(races):
            if race % 20 == 0:
                await self._refill(types)
            calls = [self._act(worker, types) for worker in range(self._random.randint(2, CLAIMERS))]
            await asyncio.gather(*calls)
            for kind, limit in self._limits.items():
                assert self._live[kind] <= limit

    async def _refill(self, types: Sequence[str]) -> None:
        requests = [
            pb.CreateTaskRequest(
                type=kind, request_id=f"{kind}-{self._random.getrandbits(64)}", max_attempts=100
            )
            for kind in types
            for _ in range(30)
        ]
        await self._servers[0].stub.BatchCreateTasks(
            pb.BatchCreateTasksRequest(requests=requests), timeout=20
        )

    async def _act(self, worker: int, types: Sequence[str]) -> None:
        """End some runs and claim others in one call, or do one of the two, at any server."""
        ends = [self._end(run) for run in self._take_some()]
        wanted = self._random.choice([types, types[:1], types[-1:]])
        count = self._random.choice([0, 1, 2, 5]) if ends else self._random.choice([1, 2, 5])
        began = time.monotonic()
        server = self._random.choice(self._servers)
        response = await server.claim(wanted, count, worker=f"w{worker}", finish=ends)
        self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - began)
        self._note(response.tasks)

    def _take_some(self) -> list[task_pb2.Task]:
        some = self._random.sample(self._held, self._random.randint(0, min(4, len(self._held))))
        for run in some:
            self._held.remove(run)
            self._live[run.type] -= 1
        return some

    def _end(self, run: task_pb2.Task) -> work_pb2.FinishItem:
        kind = self._random.randrange(4)
        if kind == 0:
            return released(run)
        return failed(run, retryable=True) if kind == 1 else completed(run)

    def _note(self, tasks: Sequence[task_pb2.Task]) -> None:
        self.claimed += len(tasks)
        self._held += tasks
        for task in tasks:
            self._live[task.type] += 1
            self.most[task.type] = max(self.most[task.type], self._live[task.type])
            limit = self._limits[task.type]
            assert self._live[task.type] <= limit, (
                f"{self._live[task.type]} runs at once, the limit is {limit}"
            )

    async def no_room_is_lost(self) -> None:
        """End everything; then each type must again give out as many tasks as its limit, and no more."""
        while self._held:
            ends = [completed(run) for run in self._take_some()]
            if ends:
                await self._random.choice(self._servers).finish(*ends)
        await self._refill(list(self._limits))
        for kind, limit in self._limits.items():
            assert len((await self._servers[-1].claim(kind, 20)).tasks) == limit
