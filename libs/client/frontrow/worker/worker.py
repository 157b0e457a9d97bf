"""The worker: a life cycle around the dispatcher, the beats and the two channels."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import uuid
from collections.abc import Callable, Sequence

import grpc
from frontrow.task.v1 import task_service_pb2_grpc, work_pb2
from frontrow.worker.beats import BeatThread
from frontrow.worker.calls import Calls
from frontrow.worker.dial import Dial
from frontrow.worker.dispatch import Dispatcher, Limits
from frontrow.worker.execute import Handler
from frontrow.worker.leases import LeaseBook
from frontrow.worker.run import Run

_log = logging.getLogger(__name__)

MOST_SLOTS = 500


def new_worker_id() -> str:
    """Return an id for this process start: host, process and a random part."""
    return f"{socket.gethostname()[:64]}:{os.getpid()}:{uuid.uuid4().hex[:12]}"


class Worker:
    """Claims tasks of some types and runs an async handler on each, several at once.

    The handler returns `Completed`, `Failed` or `Released`, or raises `TaskFailed` or `Infrastructure`; any
    other exception is a retryable failure. It is cancelled when its lease is lost or on request.

    Args:
        target: address of the task service (loopback), or a `Dial` that says how to reach it.
        types: task types to claim, 1–50.
        handler: does the work of one run.
        concurrency: runs at once, 1–500.
        worker_id: unique to this process start; None makes one.
        poll_seconds: longest pause between two long polls when the server ends one early.
        wait_seconds: length of a long poll, at most 60.
        run_timeout_seconds: a run that takes longer fails, retryable. None: no limit.
        on_serving: called with False when infrastructure counts as down, with True when it is back.
    """

    def __init__(
        self, *, target: str | Dial, types: Sequence[str], handler: Handler, concurrency: int,
        worker_id: str | None = None, poll_seconds: float = 3.0, wait_seconds: float = 30.0,
        run_timeout_seconds: float | None = None, on_serving: Callable[[bool], None] | None = None,
    ) -> None:  # fmt: skip
        if not 1 <= concurrency <= MOST_SLOTS:
            raise ValueError(f"concurrency is {concurrency}; it must be 1 to {MOST_SLOTS}")
        if not types:
            raise ValueError("types is empty; name at least one task type")
        self.worker_id = worker_id or new_worker_id()
        self.serving = True
        self._dial = Dial(target) if isinstance(target, str) else target
        self._types = list(types)
        self._handler = handler
        self._limits = Limits(concurrency, wait_seconds, poll_seconds, run_timeout_seconds)
        self._tell = on_serving
        self._book = LeaseBook()
        self._channel: grpc.aio.Channel | None = None
        self._beats: BeatThread | None = None
        self._dispatcher: Dispatcher | None = None
        self._reconnects: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open the channels and begin to claim; returns at once, even when the server is out of reach."""
        loop = asyncio.get_running_loop()
        self._channel = self._dial.aio()
        stub = task_service_pb2_grpc.TaskServiceStub(self._channel)
        calls = Calls(stub, worker_id=self.worker_id, types=self._types)

        def on_result(run: Run, result: work_pb2.LeaseResult) -> None:
            # In the beat thread: a loop that is closed meanwhile has nothing left to interrupt.
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._lease_answered, run, result)

        self._beats = BeatThread(self._dial, worker_id=self.worker_id, book=self._book, on_result=on_result)
        self._dispatcher = Dispatcher(
            calls,
            self._book,
            self._beats,
            handler=self._handler,
            limits=self._limits,
            on_serving=self._set_serving,
        )
        self._beats.start()
        self._reconnects = loop.create_task(self._resume_on_reconnect(self._channel, self._dispatcher))
        self._dispatcher.wake()
        _log.info("worker.started worker_id=%s types=%s", self.worker_id, ",".join(self._types))

    async def stop(self, grace_seconds: float = 10.0) -> None:
        """Stop claiming, let runs end or give them back, send what ended.

        Takes as long as that does, at most `grace_seconds`, and up to 3 s for the last word to a server that
        doesn't answer; a worker that holds no run takes at most 5 s in all.
        """
        if self._dispatcher is None or self._beats is None or self._channel is None:
            return
        await self._dispatcher.drain(grace_seconds)
        if self._reconnects is not None:
            self._reconnects.cancel()
        await asyncio.to_thread(self._beats.stop)
        await self._channel.close()
        self._dispatcher = None
        _log.info("worker.stopped worker_id=%s", self.worker_id)

    def _lease_answered(self, run: Run, result: work_pb2.LeaseResult) -> None:
        if self._book.get(run.task_id, run.version) is not run or self._dispatcher is None:
            return  # finished while the beat was under way
        if result.outcome != work_pb2.LEASE_OUTCOME_RENEWED:
            if not run.lease_lost:
                _log.warning("worker.lease_lost task_id=%s version=%d", run.task_id, run.version)
                self._dispatcher.lose(run)
            return
        self._dispatcher.confirm(run)
        if result.cancel_requested and not run.cancel_requested:
            run.cancel_requested = True
            run.interrupt()

    def _set_serving(self, serving: bool) -> None:
        if serving == self.serving:
            return
        self.serving = serving
        _log.warning("worker.serving" if serving else "worker.not_serving")
        if self._tell is not None:
            self._tell(serving)

    @staticmethod
    async def _resume_on_reconnect(channel: grpc.aio.Channel, dispatcher: Dispatcher) -> None:
        """End a back-off as soon as the connection is up again."""
        state = channel.get_state(try_to_connect=True)
        while state != grpc.ChannelConnectivity.SHUTDOWN:
            await channel.wait_for_state_change(state)
            state = channel.get_state(try_to_connect=True)
            if state == grpc.ChannelConnectivity.READY:
                dispatcher.resume()
