"""How many calls a server lets work at once, by a clock that the test moves."""

from libs.common.interceptors.admission import ALWAYS_IN, GOOD_SECONDS, WINDOW_SECONDS, WorkPlaces

MOST = 1000


class Clock:
    """A clock that stands still unless it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def crowd(places: WorkPlaces, count: int) -> int:
    """Let so many calls try to come in; return how many did."""
    return sum(places.enter() for _ in range(count))


def serve(places: WorkPlaces, clock: Clock, *, a_second: float, arriving: float, seconds: float) -> list[int]:
    """Let a server do its work under an even stream of calls; return how many were there, at each end."""
    here = []
    owed = 0.0
    for _ in range(round(seconds * a_second)):
        clock.now += 1 / a_second
        owed += arriving / a_second
        while owed >= 1:
            owed -= 1
            places.enter()
        if places.taken:
            places.leave()
        here.append(places.taken)
    return here


def test_a_burst_is_let_in_up_to_the_most_that_there_may_be():
    places = WorkPlaces(MOST, monotonic=Clock())
    assert crowd(places, 3 * MOST) == MOST


def test_twice_the_load_leaves_as_many_calls_as_are_done_in_good_time():
    clock = Clock()
    places = WorkPlaces(MOST, monotonic=clock)
    here = serve(places, clock, a_second=600, arriving=1_200, seconds=10)
    assert max(here[len(here) // 2 :]) <= 600 * GOOD_SECONDS * 1.1
    assert min(here[len(here) // 2 :]) >= 600 * GOOD_SECONDS * 0.8


def test_a_slow_server_still_lets_in_the_few_that_may_always_come():
    clock = Clock()
    places = WorkPlaces(MOST, monotonic=clock)
    here = serve(places, clock, a_second=20, arriving=100, seconds=30)
    assert here[-1] in {ALWAYS_IN - 1, ALWAYS_IN}


def test_a_server_that_gets_nothing_done_lets_nobody_in_beyond_them():
    clock = Clock()
    places = WorkPlaces(MOST, monotonic=clock)
    assert crowd(places, ALWAYS_IN + 50) == ALWAYS_IN + 50
    clock.now += WINDOW_SECONDS * 2
    places.leave()
    assert crowd(places, 100) == 0


def test_once_the_crowd_is_gone_as_many_may_come_as_before():
    clock = Clock()
    places = WorkPlaces(MOST, monotonic=clock)
    serve(places, clock, a_second=600, arriving=1_200, seconds=5)
    assert places.places < MOST
    serve(places, clock, a_second=600, arriving=0, seconds=5)
    assert places.taken == 0
    assert crowd(places, 2 * MOST) == MOST


def test_a_load_that_the_server_can_bear_is_never_refused():
    clock = Clock()
    places = WorkPlaces(MOST, monotonic=clock)
    crowd(places, ALWAYS_IN * 2)
    serve(places, clock, a_second=2_000, arriving=1_999, seconds=5)
    assert places.taken > ALWAYS_IN
    assert places.enter()


def test_a_small_server_has_its_few_places_and_no_more():
    clock = Clock()
    places = WorkPlaces(2, monotonic=clock)
    assert crowd(places, 5) == 2
    clock.now += 10
    assert not places.enter()
    places.leave()
    assert places.enter()
