"""The transition table and the decision about a run's end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.task.states import FINAL, TRANSITIONS, End, Status, status_after


@given(
    end=st.sampled_from(End),
    retryable=st.booleans(),
    attempts=st.integers(1, 10),
    max_attempts=st.integers(1, 10),
    cancel_requested=st.booleans(),
)
def test_every_end_of_a_run_is_a_transition_of_the_table(
    end: End, retryable: bool, attempts: int, max_attempts: int, cancel_requested: bool
) -> None:
    after = status_after(
        end,
        retryable=retryable,
        attempts=attempts,
        max_attempts=max_attempts,
        cancel_requested=cancel_requested,
    )
    assert after in TRANSITIONS[Status.PROCESSING]
    if cancel_requested:
        assert after is Status.CANCELLED
    if attempts >= max_attempts:
        assert after is not Status.PENDING or end is End.RELEASED


def test_what_is_completed_stays_so_and_final_states_are_left_by_a_retry_alone() -> None:
    assert TRANSITIONS[Status.COMPLETED] == frozenset()
    for status in FINAL:
        assert TRANSITIONS[status] <= {Status.PENDING}
