"""The decisions about a transcription's state."""

from dataclasses import dataclass
from uuid import UUID, uuid4

import pytest

from services.asr.states import (
    CANCELLABLE,
    RESETTABLE,
    TRANSITIONS,
    AsrStatus,
    Begin,
    cut_message,
    decide_begin,
)

TASK = uuid4()


@dataclass
class Material:
    asr_status: str
    asr_task_id: UUID | None = TASK
    seen_task_version: int = 3


@pytest.mark.parametrize("status", [AsrStatus.PENDING, AsrStatus.PROCESSING, AsrStatus.FAILED])
def test_a_newer_version_of_the_current_task_begins_a_run(status: AsrStatus) -> None:
    assert decide_begin(Material(status), TASK, 4) is Begin.BEGIN


def test_the_same_begin_again_is_a_repeat_only_while_its_run_is_on() -> None:
    assert decide_begin(Material(AsrStatus.PROCESSING), TASK, 3) is Begin.REPEAT
    assert decide_begin(Material(AsrStatus.FAILED), TASK, 3) is Begin.LEASE_LOST
    assert decide_begin(Material(AsrStatus.PENDING), TASK, 3) is Begin.LEASE_LOST


def test_an_older_version_has_lost_its_lease() -> None:
    assert decide_begin(Material(AsrStatus.PROCESSING), TASK, 2) is Begin.LEASE_LOST


def test_another_task_is_superseded_whatever_the_state() -> None:
    for status in AsrStatus:
        assert decide_begin(Material(status), uuid4(), 9) is Begin.SUPERSEDED
    assert decide_begin(Material(AsrStatus.NONE, asr_task_id=None), TASK, 9) is Begin.SUPERSEDED


@pytest.mark.parametrize("version", [1, 3, 9])
def test_a_completed_material_stays_completed_for_any_version_of_its_task(version: int) -> None:
    assert decide_begin(Material(AsrStatus.COMPLETED), TASK, version) is Begin.ALREADY_COMPLETED


def test_every_state_has_its_transitions_and_the_sets_agree_with_them() -> None:
    assert set(TRANSITIONS) == set(AsrStatus)
    assert {state for state, to in TRANSITIONS.items() if AsrStatus.FAILED in to} == CANCELLABLE
    assert {state for state in RESETTABLE if AsrStatus.PENDING in TRANSITIONS[state]} == RESETTABLE


def test_a_long_message_is_cut_on_a_character_and_loses_its_nul() -> None:
    cut = cut_message("\x00" + "错" * 5000)
    assert len(cut) == 4000
    assert "\x00" not in cut
    assert cut.endswith("错")
