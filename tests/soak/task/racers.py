"""Workers that race for tasks: each claims, waits, ends, gives back and leaves, at any server."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import grpc.aio
from frontrow.task.v1 import task_pb2, work_pb2
from frontrow.task.v1 import task_service_pb2 as pb

from tests.integration.task.service import Tasks, completed, failed, released

UNHEARD = {grpc.StatusCode.UNAVAILABLE}
"""A server whose connection was cut says so; what it did is unknown."""
CALL_SECONDS = 20.0
LATE_SECONDS = 1.0
"""An answer that took longer may name runs that were given back as unheard of meanwhile."""


class Racer:
    """One worker. Its calls come one after another, its beats beside them.

    What is in `held` is live for certain: from the answer of its claim to the sending of its end.
    """

    def __init__(self, worker_id: str, types: Sequence[str], chance: random.Random) -> None:
        self._worker_id, self._types, self._chance = worker_id, types, chance
        self._ending: list[tuple[task_pb2.Task, work_pb2.FinishItem]] = []
        self.held: list[task_pb2.Task] = []

    @property
    def idle(self) -> bool:
        """Whether it holds nothing, and every end has been answered."""
        return not self.held and not self._ending

    async def act(self, server: Tasks) -> tuple[int, float]:
        """Make one call; return how many tasks it brought, and the seconds it took beyond its wait."""
        if self._chance.random() < 0.01:
            return await self._leave(server)
        self._give_up(self._chance.randint(0, 4))
        if self._ending:
            return await self._claim(server, self._chance.choice([0, 1, 2, 5]), 0.0)
        wait = self._chance.choice([0.0, 0.0, 0.02, 0.2])
        return await self._claim(server, self._chance.choice([1, 2, 5]), wait)

    async def end_all(self, server: Tasks) -> None:
        """End what is held, as far as the server answers."""
        self._give_up(len(self.held))
        await self._claim(server, 0, 0.0)

    async def beat(self, server: Tasks) -> None:
        """Name what is held, until its end has been answered; forget what is lost."""
        named = [*self.held, *(task for task, _ in self._ending)]
        answer = await self._heartbeat(server, named, leaving=False)
        for task, result in zip(named, answer.results if answer else (), strict=False):
            if result.outcome == work_pb2.LEASE_OUTCOME_LEASE_LOST and task in self.held:
                self.held.remove(task)

    def _give_up(self, count: int) -> None:
        for run in self._chance.sample(self.held, min(count, len(self.held))):
            self.held.remove(run)
            ends = [released(run), failed(run, retryable=True), completed(run), completed(run)]
            self._ending.append((run, self._chance.choice(ends)))

    async def _claim(self, server: Tasks, count: int, wait: float) -> tuple[int, float]:
        ending = self._ending[:]
        wanted = self._chance.choice([self._types, self._types[:1], self._types[-1:]])
        asked = time.monotonic()
        try:
            answer = await server.claim(
                wanted, count, worker=self._worker_id, wait=wait, finish=[item for _, item in ending]
            )
        except grpc.aio.AioRpcError as error:
            if error.code() not in UNHEARD:
                raise
            # The same ends are sent again; what was claimed comes back by the beats.
            return 0, 0.0
        took = time.monotonic() - asked - wait
        self._ending = [pair for pair in self._ending if pair not in ending]
        if took < LATE_SECONDS:
            self.held += answer.tasks
        else:
            self._ending += [(run, released(run)) for run in answer.tasks]
        return len(answer.tasks), took

    async def _leave(self, server: Tasks) -> tuple[int, float]:
        """Say goodbye as a worker that stops: what it doesn't name goes back at once."""
        del self.held[: len(self.held) // 2]
        named = [*self.held, *(task for task, _ in self._ending)]
        asked = time.monotonic()
        await self._heartbeat(server, named, leaving=True)
        return 0, time.monotonic() - asked

    async def _heartbeat(
        self, server: Tasks, named: Sequence[task_pb2.Task], *, leaving: bool
    ) -> pb.HeartbeatResponse | None:
        leases = [work_pb2.Lease(task_id=run.id, version=run.version) for run in named]
        request = pb.HeartbeatRequest(worker_id=self._worker_id, leases=leases, leaving=leaving)
        try:
            return await server.stub.Heartbeat(request, timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            if error.code() not in UNHEARD:
                raise
            return None
