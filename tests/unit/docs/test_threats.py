"""Every threat of docs/security.md has an answer, and tests by whole names that are there."""

import re

import pytest

from tests.unit.docs.commands import ROOT

_TABLE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8").partition("## Threats")[2]
_ROWS = [
    tuple(cell.strip() for cell in row.split(" | "))
    for row in re.findall(r"^\| (.*) \|$", _TABLE, re.MULTILINE)
]


def test_there_are_threats() -> None:
    assert _ROWS[0] == ("threat", "answer", "shown by")
    assert len(_ROWS) > 25


@pytest.mark.parametrize("row", _ROWS[2:], ids=lambda row: row[0])
def test_a_threat_has_an_answer_and_files_with_tests(row: tuple[str, ...]) -> None:
    assert len(row) == 3, "threat, answer, shown by"
    named = re.findall(r"`([^`]+)`", row[2])
    assert named
    for name in named:
        path = ROOT / name
        assert path.is_file(), name
        assert re.search(r"^(async )?def test_", path.read_text(encoding="utf-8"), re.MULTILINE), name
