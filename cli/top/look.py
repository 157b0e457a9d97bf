"""Look at all servers at once, again and again; keep what was known while one is away."""

import asyncio
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

import grpc
from frontrow.task.v1 import queue_pb2, task_service_pb2, task_service_pb2_grpc

from cli.connection import Connection, explain
from cli.health import CONTEXTS, ask
from cli.top.rates import Flows, Level

_CALL_SECONDS = 5.0
# Queues, and workers, of a look: the largest page that there is.
_MOST = 1_000


@dataclass
class Picture:
    """What one look has found; times are Unix seconds by this machine's clock.

    `queues` and `workers` are those of `known_at`, 0 before the first answer; `trouble` says why there is
    nothing newer.
    """

    at: float
    servers: list[dict[str, Any]]
    queues: list[dict[str, Any]] = field(default_factory=list)
    workers: list[dict[str, Any]] = field(default_factory=list)
    known_at: float = 0.0
    trouble: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON data, times in UTC."""
        return {
            "time": _moment(self.at),
            "servers": [{**server, "since": _moment(server["since"])} for server in self.servers],
            "queues": self.queues,
            "workers": self.workers,
            "known_time": _moment(self.known_at) if self.known_at else None,
            "trouble": self.trouble,
        }


class Lookout:
    """Keeps a channel to each server, and a new one when its address changes. An async context."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._channels: dict[str, tuple[str, grpc.aio.Channel]] = {}
        self._since: dict[str, tuple[str, float]] = {}
        self._flows = Flows()
        self._last: Picture | None = None

    async def __aenter__(self) -> Self:
        """Open nothing yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the channels."""
        for _, channel in self._channels.values():
            await channel.close()

    async def look(self) -> Picture:
        """Return the present state; of what can't be had, the last one that was known."""
        for context in CONTEXTS:
            await self._connect(context)
        servers, found = await asyncio.gather(self._health(), self._work())
        last = self._last or Picture(0.0, [])
        picture = Picture(time.time(), servers, last.queues, last.workers, last.known_at)
        if isinstance(found, str):
            picture.trouble = found
        else:
            picture.queues, picture.workers = found
            picture.known_at = picture.at
        self._last = picture
        return picture

    async def _connect(self, context: str) -> None:
        """Open a channel, or another one when a server was started anew elsewhere."""
        address = self._connection.address(context)
        known, channel = self._channels.get(context, ("", None))
        if known == address:
            return
        if channel is not None:
            await channel.close()
        self._channels[context] = (address, self._connection.open(context))

    async def _health(self) -> list[dict[str, Any]]:
        asked = (ask(self._connection, context, self._channels[context][1]) for context in CONTEXTS)
        return [{**server, "since": self._seen(server)} for server in await asyncio.gather(*asked)]

    def _seen(self, server: dict[str, Any]) -> float:
        """Return since when a server has been as it is."""
        health, since = self._since.get(server["server"], ("", 0.0))
        if health != server["health"]:
            since = time.time()
            self._since[server["server"]] = (server["health"], since)
        return since

    async def _work(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]] | str:
        """Return queues and workers, or why they can't be had."""
        stub = task_service_pb2_grpc.TaskServiceStub(self._channels["task"][1])
        try:
            queues, workers = await asyncio.gather(
                stub.ListQueues(task_service_pb2.ListQueuesRequest(page_size=_MOST), timeout=_CALL_SECONDS),
                stub.ListWorkers(task_service_pb2.ListWorkersRequest(page_size=_MOST), timeout=_CALL_SECONDS),
            )
        except grpc.aio.AioRpcError as error:
            return explain(error, "task", self._connection.address("task")).splitlines()[0]
        now = time.time()
        self._flows.note(time.monotonic(), [_level(queue) for queue in queues.queues])
        return (
            [_queue(queue, self._flows) for queue in queues.queues],
            [_worker(worker, now) for worker in workers.workers],
        )


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _level(queue: queue_pb2.Queue) -> Level:
    return Level(
        queue.type, queue.pending, queue.processing, queue.completed + queue.failed + queue.cancelled
    )


def _queue(queue: queue_pb2.Queue, flows: Flows) -> dict[str, Any]:
    waits = queue.HasField("oldest_pending_age")
    return {
        "type": queue.type,
        "paused": queue.policy.paused,
        "concurrency_limit": queue.policy.concurrency_limit,
        "pending": queue.pending,
        "processing": queue.processing,
        "completed": queue.completed,
        "failed": queue.failed,
        "cancelled": queue.cancelled,
        "oldest_pending_seconds": queue.oldest_pending_age.ToMilliseconds() / 1000 if waits else None,
        "workers": queue.workers,
        **flows.of(queue.type, queue.created_per_minute / 60, queue.ended_per_minute / 60),
    }


def _worker(worker: queue_pb2.WorkerInfo, now: float) -> dict[str, Any]:
    return {
        "worker_id": worker.worker_id,
        "types": list(worker.types),
        "running": len(worker.leases),
        "progress": [lease.progress for lease in worker.leases],
        "heard_of_seconds": max(0.0, round(now - worker.last_seen_time.ToMilliseconds() / 1000, 1)),
        "up_seconds": max(0.0, round(now - worker.first_seen_time.ToMilliseconds() / 1000, 1)),
    }
