"""Every reason that a person can meet comes with what to do about it."""

import re

import pytest

from cli.cures import CURES, WITHOUT, cure, cured, failure
from tests.unit.cli.reasons import given
from tests.unit.docs.commands import commands, problem
from tests.unit.docs.test_pages import _OTHERS, _settings


def test_every_reason_has_a_cure_or_is_listed_as_having_none() -> None:
    reasons, cured_ones = given(), {name.rpartition(".")[2] for name in CURES}
    assert len(reasons) > 100
    assert reasons - cured_ones - set(WITHOUT) == set()
    assert cured_ones & set(WITHOUT) == set()


def test_every_cure_is_for_a_reason_that_the_code_gives() -> None:
    assert {name.rpartition(".")[2] for name in CURES} | set(WITHOUT) <= given()


def test_a_cure_names_commands_and_settings_that_there_are() -> None:
    for reason, text in CURES.items():
        assert "\n" not in text, reason
        assert {" ".join(words): said for words in commands(text) if (said := problem(words))} == {}, reason
        named = set(re.findall(r"\bFRONTROW_[A-Z_]*[A-Z]\b", text))
        assert named <= {*_settings(), *_OTHERS}, reason


def test_a_cure_is_found_by_reason_or_by_context_and_reason() -> None:
    assert "frontrow spiders list" in cure("ingest", "KEY_NOT_FOUND")
    assert "frontrow keys list" in cure("review", "KEY_NOT_FOUND")
    assert cure("review", "LEASE_LOST") == ""
    assert cure("task", "") == ""


@pytest.mark.parametrize(
    ("context", "setting"),
    [
        ("ingest", "FRONTROW_INGEST_WORKER_ALLOW_LOOPBACK=true"),
        ("asr", "FRONTROW_ASR_FETCH_ALLOW_LOOPBACK=true"),
    ],
)
def test_a_blocked_address_names_the_setting_that_lets_this_machine_be_fetched_from(
    context: str, setting: str
) -> None:
    assert setting in cure(context, "ADDRESS_BLOCKED")


def test_a_wrong_signature_says_what_to_check() -> None:
    for word in ("secret", "key id", "clock", "bytes"):
        assert word in cure("ingest", "BAD_SIGNATURE")


def test_several_failures_are_told_with_each_cure_once() -> None:
    lines = cured("ingest", ["DNS", "LEASE_LOST", "DNS", "", "TIMEOUT"])
    assert [line.partition(":")[0] for line in lines] == ["DNS", "TIMEOUT"]
    assert failure("asr", "NO_ENGINE", "none is there").splitlines()[1].startswith("  `frontrow doctor`")
    assert failure("asr", "NEVER_HEARD_OF", "odd") == "NEVER_HEARD_OF: odd"
