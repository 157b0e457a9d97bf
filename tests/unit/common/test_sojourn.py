"""Which calls a server refuses for how long they waited, by a clock that the test moves."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import pytest
from frontrow.client.retry import Patience
from frontrow.client.spider import Submitting
from frontrow.ingest.v1 import ingest_service_pb2
from hypothesis import given
from hypothesis import strategies as st

from libs.common.context_server import MOST_PENDING
from libs.common.interceptors.call import ServedCall, Shape
from libs.common.interceptors.sojourn import (
    BURST_SECONDS,
    CALM_SECONDS,
    FEWEST,
    LONG_SECONDS,
    LONGEST_BURST_SECONDS,
    MOST_WAITING,
    SHORT_SECONDS,
    TIMEOUT_KEY,
    WINDOW_SECONDS,
    Sojourn,
    SojournTimes,
    timeout_metadata,
)

WORK_SECONDS, REFUSAL_SECONDS = 0.002, 0.0004


@dataclass
class Server:
    """A server of one thread with a queue that it can't see: it learns how long each call waited."""

    now: float = 0.0
    work_seconds: float = WORK_SECONDS
    refusal_seconds: float = REFUSAL_SECONDS
    served: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sojourn = Sojourn(monotonic=lambda: self.now)

    def take(self, arrived: float) -> bool:
        """Take a call that came then; return whether it was served."""
        self.now = max(self.now, arrived)
        waited = self.now - arrived
        if self.sojourn.is_too_long(waited):
            self.now += self.refusal_seconds
            self.refused.append(waited)
            return False
        self.now += self.work_seconds
        self.served.append(waited)
        return True

    def bear(self, a_second: float, seconds: float) -> None:
        """Serve an even stream of calls."""
        began = self.now
        for number in range(round(a_second * seconds)):
            self.take(began + number / a_second)


@pytest.mark.parametrize("times", [1.5, 2.0, 3.0])
def test_more_than_can_be_done_is_refused_and_who_is_served_waits_little(times):
    server = Server()
    server.bear(times / WORK_SECONDS, 30)
    settled = server.served[len(server.served) // 10 :]
    assert server.refused
    assert max(settled) < LONG_SECONDS
    assert max(server.refused) < 2 * (LONG_SECONDS + 2 * WINDOW_SECONDS)
    share_at_best = (1 - times * REFUSAL_SECONDS / WORK_SECONDS) / (1 - REFUSAL_SECONDS / WORK_SECONDS)
    assert len(server.served) > 0.8 * share_at_best * 30 / WORK_SECONDS


@pytest.mark.parametrize("times", [1.5, 2.0, 3.5])
def test_calls_that_jump_the_queue_hide_it_from_nobody(times):
    """gRPC hands a call that comes at the right moment on before those that wait."""
    server = Server()
    for number in range(round(times / WORK_SECONDS * 10)):
        arrived = number * WORK_SECONDS / times
        server.take(max(arrived, server.now) if number % 20 == 0 else arrived)
    assert max(server.served) < LONGEST_BURST_SECONDS


@pytest.mark.parametrize("times", [2.0, 3.0, 3.5])
def test_a_queue_that_stands_is_seen_before_grpc_drops_what_is_in_it(times):
    server, a_second = Server(work_seconds=0.001, refusal_seconds=0.0002), times / 0.001
    longest = 0.0
    for number in range(round(a_second * 3)):
        server.take(number / a_second)
        longest = max(longest, server.now * a_second - number)
    assert longest < MOST_PENDING


@pytest.mark.parametrize("work_seconds", [0.015, 0.05, 0.1])
def test_the_queue_of_a_server_whose_calls_take_long_is_seen_to_stand_too(work_seconds):
    server = Server(work_seconds=work_seconds)
    server.bear(2 / work_seconds, 30)
    assert server.refused
    assert max(server.served) < LONG_SECONDS + 2 * MOST_WAITING * work_seconds + 1


def test_few_calls_that_waited_tell_nothing_of_a_queue():
    server = Server()
    for _ in range(100):
        server.now += 1.2 / FEWEST
        assert not server.sojourn.is_too_long(5.0)


def test_once_the_load_is_gone_nobody_is_refused():
    server = Server()
    server.bear(2 / WORK_SECONDS, 5)
    server.bear(0.3 / WORK_SECONDS, CALM_SECONDS + WINDOW_SECONDS)
    server.refused.clear()
    server.bear(0.8 / WORK_SECONDS, 10)
    assert not server.refused


@pytest.mark.parametrize("held_back", [0.0, 2 * SHORT_SECONDS])
@pytest.mark.parametrize("pause", [0.5, CALM_SECONDS, 5.0])
def test_a_burst_at_an_idle_server_is_served(pause, held_back):
    """It takes the server a while, but nothing comes after it. A busy client holds calls back, too."""
    server = Server()
    for _ in range(5):
        began = server.now - held_back
        for _ in range(round(2 * (LONG_SECONDS + WINDOW_SECONDS) / WORK_SECONDS)):
            server.take(began)
        server.now += pause
    assert not server.refused


def test_what_piled_up_while_a_server_was_paused_is_served():
    """It was suspended, or its machine: callers came meanwhile, and it is as quick as ever."""
    server = Server()
    server.bear(0.5 / WORK_SECONDS, 2)
    paused_at = server.now
    server.now += LONGEST_BURST_SECONDS
    for number in range(200):
        server.take(paused_at + LONGEST_BURST_SECONDS * number / 200)
    server.bear(0.5 / WORK_SECONDS, 2)
    assert not server.refused


def test_a_burst_that_nobody_could_wait_for_is_cut_short():
    server = Server()
    for _ in range(round(10 / WORK_SECONDS)):
        server.take(0.0)
    assert max(server.served) < LONGEST_BURST_SECONDS + 3 * WINDOW_SECONDS


@pytest.mark.parametrize(("callers", "work_seconds"), [(100, WORK_SECONDS), (MOST_WAITING, 0.05)])
def test_callers_that_wait_for_their_answers_are_never_refused(callers, work_seconds):
    """So many callers with one call each make a server busy, but no queue that stands."""
    server, arrivals = Server(work_seconds=work_seconds), deque([0.0] * callers)
    for _ in range(20_000):
        assert server.take(arrivals.popleft())
        arrivals.append(server.now)


@given(st.lists(st.floats(0, 0.1), min_size=1, max_size=200), st.integers(1, FEWEST - 1))
def test_calls_that_waited_elsewhere_are_served_while_others_come_quickly(pauses, between):
    """A proxy or a client may hold a call back; the queue here is short all the same."""
    now = 0.0
    sojourn = Sojourn(monotonic=lambda: now)
    for number, pause in enumerate(pauses):
        now += pause
        assert not sojourn.is_too_long(5.0)
        if number % between == 0:
            assert not sojourn.is_too_long(0.01)


def test_who_does_not_say_how_long_it_waited_is_refused_with_its_neighbours():
    server = Server()
    assert not server.sojourn.is_too_long(None)
    while server.now < LONG_SECONDS * 2 + BURST_SECONDS + 3 * WINDOW_SECONDS:
        server.sojourn.is_too_long(LONG_SECONDS * 2)
        server.now += 0.005
    assert server.sojourn.is_too_long(LONG_SECONDS * 2)
    assert server.sojourn.is_too_long(None)
    assert not server.sojourn.is_too_long(0.0)
    assert not server.sojourn.is_too_long(None)


def test_who_does_not_say_how_long_it_waited_shares_no_fate_that_is_over():
    """A client that connects when the load is gone can't say it of its first call."""
    server = Server()
    server.bear(2 / WORK_SECONDS, 5)
    server.sojourn.is_too_long(LONG_SECONDS)
    assert server.sojourn.is_too_long(None)
    server.now += 2 * SHORT_SECONDS
    assert not server.sojourn.is_too_long(None)


class Context:
    """What gRPC tells of a call: its connection and metadata, and what is left of its deadline."""

    def __init__(self, left: float | None, *metadata: tuple[str, str], peer: str = "ipv4:10.0.0.1:1") -> None:
        self._left, self._metadata, self._peer = left, metadata, peer

    def time_remaining(self) -> float | None:
        """Return what is left, in seconds."""
        return self._left

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """Return what the client sent."""
        return self._metadata

    def peer(self) -> str:
        """Return the connection's name."""
        return self._peer


def call_with(left: float | None, *metadata: tuple[str, str], peer: str = "ipv4:10.0.0.1:1") -> ServedCall:
    return ServedCall("/probe.v1.Probe/Ask", Shape.UNARY_UNARY, Context(left, *metadata, peer=peer))


@pytest.mark.parametrize(
    ("left", "metadata", "waited"),
    [
        (29.5, [timeout_metadata(30)], 0.5),
        (30.05, [timeout_metadata(30)], 0.0),
        (29.5, [], None),
        (None, [timeout_metadata(30)], None),
        (29.5, [(TIMEOUT_KEY, "soon")], None),
        (29.5, [(TIMEOUT_KEY, "nan")], None),
        (29.5, [(TIMEOUT_KEY, "inf")], None),
        (29.5, [(TIMEOUT_KEY, "-inf")], None),
        (29.5, [(TIMEOUT_KEY, "1e999")], None),
        (28.0, [timeout_metadata(30), ("grpc-previous-rpc-attempts", "1")], None),
        # no client with this deadline can name it: all others would look as if they waited little
        (29.5, [(TIMEOUT_KEY, "0")], None),
        (29.5, [(TIMEOUT_KEY, "-1")], None),
        # gRPC made 151 s of it, so that this one waited for half a second
        (150.5, [timeout_metadata(150.5)], None),
    ],
)
def test_how_long_a_call_waited_is_what_is_gone_of_the_timeout_it_names(left, metadata, waited):
    now = 0.0
    times = SojournTimes(monotonic=lambda: now)
    times.of(call_with(30.0, timeout_metadata(30)))
    now = 10.0
    assert times.of(call_with(left, *metadata)) == (None if waited is None else pytest.approx(waited))


def test_what_a_client_waited_for_its_connection_is_no_wait_at_the_server():
    now = 100.0
    times = SojournTimes(monotonic=lambda: now)
    waited_a_second = call_with(29.0, timeout_metadata(30))
    assert times.of(waited_a_second) is None
    now += 0.9
    assert times.of(waited_a_second) is None
    assert times.of(call_with(29.5, timeout_metadata(30))) == pytest.approx(0.5)
    assert times.of(call_with(29.5, timeout_metadata(30), peer="ipv4:10.0.0.2:1")) is None
    now += 0.2
    assert times.of(waited_a_second) == pytest.approx(1.0)


def test_connections_are_forgotten_when_there_are_many():
    now = 0.0
    times = SojournTimes(monotonic=lambda: now, most_peers=2)
    for number, told in enumerate(("a", "b", "a", "c", "a", "b")):
        now = float(number)
        waited = times.of(call_with(29.5, timeout_metadata(30), peer=told))
        assert (waited is not None) == (number in {2, 4}), "the one that was silent for longest goes"


def test_spiders_name_the_timeout_of_each_attempt_as_services_do():
    request = ingest_service_pb2.SubmitGalleryRequest(request_id="one")
    attempt = Submitting(request, ("key", "secret"), Patience(60)).attempt()
    assert timeout_metadata(attempt.timeout_seconds) in attempt.metadata
