"""Remember which workers were heard of, without a write per call."""

from __future__ import annotations

import json
from collections.abc import Sequence

from libs.common.lane import Lane
from libs.common.loops import Periodic
from services.task import statements_queue

INTERVAL_SECONDS = 60.0
FORGET_ROUNDS = 60


class WorkerRegistry:
    """Notes each worker a call came from; writes them down once a minute, a new one within seconds."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._seen: dict[str, tuple[str, ...]] = {}
        self._known: set[str] = set()
        self._left: set[str] = set()
        self._round = 0
        self._loop = Periodic("task:workers", INTERVAL_SECONDS, self.step, jitter=0.2)

    def saw(self, worker_id: str, types: Sequence[str] = ()) -> None:
        """Note a worker; `types` are empty when the call doesn't tell them."""
        if types or worker_id not in self._seen:
            self._seen[worker_id] = tuple(types)
        if worker_id not in self._known:
            self._known.add(worker_id)
            self._loop.wake()

    def left(self, worker_id: str) -> None:
        """Note that a worker has gone for good, whatever other servers still have to write down of it."""
        self._seen.pop(worker_id, None)
        self._left.add(worker_id)
        self._loop.wake()

    async def start(self) -> None:
        """Begin to write down."""
        await self._loop.start()

    async def stop(self) -> None:
        """Let the write in hand finish."""
        await self._loop.stop()

    async def step(self) -> None:
        """Write down who was seen since the last time, and who left."""
        self._round += 1
        seen, self._seen = self._seen, {}
        left, self._left = self._left, set()
        if not seen and not left:
            return
        try:
            async with self._lane.transaction() as connection:
                types = [json.dumps(types) for types in seen.values()]
                await connection.execute(statements_queue.SEEN, list(seen), types)
                await connection.execute(statements_queue.LEFT, list(left))
                if self._round % FORGET_ROUNDS == 0:
                    await connection.execute(statements_queue.DROP_WORKERS)
        except Exception:
            self._seen = {**seen, **self._seen}
            self._left |= left
            raise
        if len(self._known) > 50_000:
            self._known.clear()
