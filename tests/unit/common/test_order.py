"""The list of long test files is true."""

from tests.order import LONGEST_FIRST, TESTS


def test_every_file_that_begins_first_is_there_and_named_once() -> None:
    assert [name for name in LONGEST_FIRST if not (TESTS / name).is_file()] == []
    assert len(set(LONGEST_FIRST)) == len(LONGEST_FIRST)
