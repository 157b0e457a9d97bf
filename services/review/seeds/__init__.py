"""The vocabulary that a new database starts with; editors change it afterwards.

Each line of a list is a name and its other spellings, separated by `|`. Spellings are folded when they are
loaded, so case, marks and "fashion week" need no line of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

_FOLDER = Path(__file__).parent


def read(name: str) -> list[list[str]]:
    """Return the lines of the list `name` (`cities`, `brands`): first the name, then other spellings."""
    lines = (_FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [
        [word.strip() for word in line.split("|")]
        for line in lines
        if line.strip() and not line.startswith("#")
    ]


def folded(name: str, fold: Callable[[str], str]) -> list[tuple[str, dict[str, str]]]:
    """Return the list's names, each with its folded spellings and how they are written.

    Raises:
        ValueError: two lines share a spelling.
    """
    owners: dict[str, str] = {}
    entries = []
    for spellings in read(name):
        aliases: dict[str, str] = {}
        for spelling in spellings:
            aliases.setdefault(fold(spelling), spelling)
        for alias in aliases:
            if owners.setdefault(alias, spellings[0]) != spellings[0]:
                raise ValueError(f"{alias!r} names both {owners[alias]!r} and {spellings[0]!r}")
        entries.append((spellings[0], aliases))
    return entries
