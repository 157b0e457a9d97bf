"""The beat thread goes on whatever goes wrong around one beat."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import pytest
from frontrow.task.v1 import task_pb2, task_service_pb2, work_pb2
from frontrow.worker import beats as schedule
from frontrow.worker.beats import BeatThread, OnResult
from frontrow.worker.dial import Dial
from frontrow.worker.leases import LeaseBook
from frontrow.worker.run import Run

from services.task.repository_beat import BEATS_ABSENT
from services.task.settings import TaskSettings

Answer = Callable[[int], int]


class _Service:
    """Says of every lease that it is lost; `results` tells how many of them the n-th beat is answered."""

    def __init__(self, results: Answer) -> None:
        self._results = results
        self.beats = 0
        self.goodbyes = 0
        self.third = threading.Event()

    def heartbeat(
        self, request: task_service_pb2.HeartbeatRequest, context: grpc.ServicerContext
    ) -> task_service_pb2.HeartbeatResponse:
        if request.leaving:
            self.goodbyes += 1
            return task_service_pb2.HeartbeatResponse()
        self.beats += 1
        if self.beats >= 3:
            self.third.set()
        response = task_service_pb2.HeartbeatResponse()
        for lease in request.leases[: self._results(self.beats)]:
            response.results.add(task_id=lease.task_id, outcome=work_pb2.LEASE_OUTCOME_LEASE_LOST)
        return response


class _BlackHole(_Service):
    """Takes every beat and answers none before the test is over."""

    def __init__(self) -> None:
        super().__init__(lambda _: 0)
        self.taken = threading.Event()
        self.over = threading.Event()

    def heartbeat(
        self, request: task_service_pb2.HeartbeatRequest, context: grpc.ServicerContext
    ) -> task_service_pb2.HeartbeatResponse:
        self.taken.set()
        self.over.wait(30)
        return task_service_pb2.HeartbeatResponse()


@contextmanager
def _beating(service: _Service, on_result: OnResult) -> Iterator[BeatThread]:
    """Beat for two runs, as often as may be."""
    server = grpc.server(ThreadPoolExecutor(2))
    heartbeat = grpc.unary_unary_rpc_method_handler(
        service.heartbeat,
        request_deserializer=task_service_pb2.HeartbeatRequest.FromString,
        response_serializer=task_service_pb2.HeartbeatResponse.SerializeToString,
    )
    name = task_service_pb2.DESCRIPTOR.services_by_name["TaskService"].full_name
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(name, {"Heartbeat": heartbeat})])
    port = server.add_secure_port(
        "127.0.0.1:0", grpc.local_server_credentials(grpc.LocalConnectionType.LOCAL_TCP)
    )
    server.start()
    book = LeaseBook()
    for name in ("one", "two"):
        book.add(Run(task_pb2.Task(id=name, version=1), on_step=lambda: None))
    beats = BeatThread(Dial(f"127.0.0.1:{port}"), worker_id="w", book=book, on_result=on_result)
    beats.set_interval(0.05)
    beats.start()
    try:
        yield beats
    finally:
        beats.stop()
        server.stop(0).wait()


def test_a_listener_that_raises_ends_no_beats_and_keeps_no_other_lease_from_being_told() -> None:
    told: list[str] = []

    def on_result(run: Run, _result: work_pb2.LeaseResult) -> None:
        told.append(run.task_id)
        raise LookupError("no such run")

    service = _Service(lambda _: 2)
    with _beating(service, on_result):
        assert service.third.wait(10)
    assert told[:4] == ["one", "two", "one", "two"]


def test_an_answer_that_makes_no_sense_ends_no_beats() -> None:
    service = _Service(lambda beat: 0 if beat < 3 else 2)
    with _beating(service, lambda *_: None):
        assert service.third.wait(10)


def test_the_last_beat_says_goodbye_once() -> None:
    service = _Service(lambda _: 2)
    with _beating(service, lambda *_: None):
        assert service.third.wait(10)
        assert service.goodbyes == 0
    assert service.goodbyes == 1


def test_a_server_that_never_answers_holds_up_the_end_for_one_goodbye(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schedule, "GOODBYE_SECONDS", 0.5)
    service = _BlackHole()
    with _beating(service, lambda *_: None) as beats:
        assert service.taken.wait(10)
        began = time.monotonic()
        beats.stop()
        took = time.monotonic() - began
        service.over.set()
    assert 0.5 <= took < 3


def test_the_beats_after_a_lost_claim_are_enough_for_the_server_to_give_it_back() -> None:
    """At the real settings, also when the first of them comes at once: it is too early to count."""
    gap, count = schedule.LOST_CLAIM_SECONDS, schedule.BEATS_AFTER_LOST_CLAIM
    old_enough = TaskSettings.model_fields["lost_claim_seconds"].default
    counted = [number for number in range(count) if number * gap > old_enough]
    assert len(counted) >= BEATS_ABSENT
