"""The beat: one thread with its own channel renews every lease the worker holds.

A thread, so that work which keeps the event loop busy can't miss a beat; a channel of its own, because an aio
channel belongs to its loop.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import grpc
from frontrow.task.v1 import task_service_pb2, task_service_pb2_grpc, work_pb2
from frontrow.worker.dial import Dial
from frontrow.worker.leases import LeaseBook, lease_of
from frontrow.worker.run import Run

_log = logging.getLogger(__name__)

DEFAULT_INTERVAL_SECONDS = 20.0
CALL_SECONDS = 10.0
RETRY_SECONDS = 1.0
GOODBYE_SECONDS = 2.0
# A claim whose answer was lost is given back once it is over 10 s old and absent from two beats in a row: the
# first beat may come at once, so of four that are 6 s apart two come after that age.
BEATS_AFTER_LOST_CLAIM = 4
LOST_CLAIM_SECONDS = 6.0

OnResult = Callable[[Run, work_pb2.LeaseResult], None]


class BeatThread:
    """Beats at a third of the shortest lease, earlier for a step of progress; the last one says goodbye.

    `on_result` is called in the beat thread for each lease that was lost, shall be cancelled or was doubted.
    """

    def __init__(
        self, dial: Dial, *, worker_id: str, book: LeaseBook, on_result: OnResult, step_seconds: float = 1.0
    ) -> None:
        self._dial = dial
        self._worker_id = worker_id
        self._book = book
        self._on_result = on_result
        self._step_seconds = step_seconds
        self._interval_seconds = DEFAULT_INTERVAL_SECONDS
        self._owed = 0
        self._step = False
        self._at_once = False
        self._begun = 0
        self._stopped = False
        self._condition = threading.Condition()
        self._under_way: grpc.Future[task_service_pb2.HeartbeatResponse] | None = None
        self._thread = threading.Thread(target=self._beat_on, name="frontrow-beats", daemon=True)

    @property
    def begun(self) -> int:
        """How many beats have begun: each names what the book held after it was counted."""
        return self._begun

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Say goodbye, so that what this worker got without knowing goes back at once; end the thread.

        Takes at most `GOODBYE_SECONDS`, whatever the server does: a beat under way is broken off, since the
        goodbye names the same leases.
        """
        with self._condition:
            self._stopped = True
            self._condition.notify()
            if self._under_way is not None:
                self._under_way.cancel()
        self._thread.join()

    def step(self) -> None:
        """Bring the next beat forward because progress was made."""
        with self._condition:
            self._step = True
            self._condition.notify()

    def beat_now(self) -> None:
        """Beat as soon as may be: a run waits for the word that its lease holds."""
        with self._condition:
            self._at_once = True
            self._condition.notify()

    def claim_lost(self) -> None:
        """Note that a claim's answer never came: beats are owed even when nothing is held."""
        with self._condition:
            self._owed = BEATS_AFTER_LOST_CLAIM
            self._condition.notify()

    def set_interval(self, seconds: float) -> None:
        """Take the server's word on how often to beat; a shorter one takes effect at once."""
        with self._condition:
            shorter = seconds < self._interval_seconds
            self._interval_seconds = max(0.05, seconds)
            if shorter:
                self._condition.notify()

    def _beat_on(self) -> None:
        channel = self._dial.sync()
        stub = task_service_pb2_grpc.TaskServiceStub(channel)
        last_at, failed = time.monotonic(), False
        try:
            while self._wait(last_at, failed=failed):
                last_at = time.monotonic()
                if len(self._book) or self._owed:
                    failed = not self._beat_safely(stub)
            self._say_goodbye(stub)
        finally:
            channel.close()

    def _wait(self, last_at: float, *, failed: bool) -> bool:
        """Wait until the next beat is due; return False when the thread shall end."""
        with self._condition:
            while not self._stopped:
                gap = 0.0 if self._at_once else self._interval_seconds
                if self._owed and not len(self._book):
                    gap = min(gap, LOST_CLAIM_SECONDS)
                if self._step:
                    gap = min(gap, self._step_seconds)
                if failed:
                    gap = RETRY_SECONDS if self._at_once else min(gap, RETRY_SECONDS)
                remaining = last_at + gap - time.monotonic()
                if remaining <= 0:
                    self._step = self._at_once = False
                    return True
                self._condition.wait(remaining)
            return False

    def _beat_safely(self, stub: task_service_pb2_grpc.TaskServiceStub) -> bool:
        """Beat, whatever happens: the end of this thread would cost the worker every lease it holds."""
        try:
            return self._beat(stub)
        except Exception:  # noqa: BLE001 - whatever it was, the beats go on
            _log.exception("worker.beat_broke")
            return False

    def _beat(self, stub: task_service_pb2_grpc.TaskServiceStub) -> bool:
        # Counted before the look: who sees the old count after entering a run knows that the beat names it.
        self._begun += 1
        runs = self._book.runs()
        request = task_service_pb2.HeartbeatRequest(
            worker_id=self._worker_id, leases=[lease_of(run) for run in runs]
        )
        sent = time.monotonic()
        try:
            response = self._call(stub, request)
        except (grpc.RpcError, grpc.FutureCancelledError) as error:
            _log.warning("worker.beat_failed code=%s", getattr(error, "code", lambda: None)())
            return False
        age = time.monotonic() - sent
        self._owed = max(0, self._owed - 1)
        if response.HasField("beat_interval"):
            self.set_interval(response.beat_interval.ToTimedelta().total_seconds())
        for run, result in zip(runs, response.results, strict=True):
            renewed = result.outcome == work_pb2.LEASE_OUTCOME_RENEWED
            if renewed and run.doubted and run.is_old(age):
                self.beat_now()
            elif not renewed or result.cancel_requested or run.doubted:
                self._tell(run, result)
        return True

    def _call(
        self, stub: task_service_pb2_grpc.TaskServiceStub, request: task_service_pb2.HeartbeatRequest
    ) -> task_service_pb2.HeartbeatResponse:
        """Make a call that `stop` can break off. Raises FutureCancelledError when it did, or RpcError."""
        with self._condition:
            if self._stopped:
                raise grpc.FutureCancelledError
            self._under_way = call = stub.Heartbeat.future(request, timeout=CALL_SECONDS)
        return call.result()

    def _say_goodbye(self, stub: task_service_pb2_grpc.TaskServiceStub) -> None:
        """Name for the last time what is held: all else that was claimed for this worker goes back at once.

        That is what a claim brought whose answer was thrown away. Without this word it would wait out its
        lease, and be charged for it.
        """
        request = task_service_pb2.HeartbeatRequest(
            worker_id=self._worker_id, leases=[lease_of(run) for run in self._book.runs()], leaving=True
        )
        try:
            stub.Heartbeat(request, timeout=GOODBYE_SECONDS)
        except Exception as error:  # noqa: BLE001 - whatever it was, the sweep mends it
            _log.warning("worker.goodbye_failed: %s", error)

    def _tell(self, run: Run, result: work_pb2.LeaseResult) -> None:
        """Tell of one lease; the others must be told of even if that fails."""
        try:
            self._on_result(run, result)
        except Exception:  # noqa: BLE001 - whatever it was, the beats go on
            _log.exception("worker.lease_not_told task_id=%s", run.task_id)
