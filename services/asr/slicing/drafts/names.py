"""Names of files and folders that every file system and every URL takes, whatever a thing was called."""

from __future__ import annotations

import unicodedata

_MOST_CHARACTERS, _MOST_BYTES = 40, 120
_RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}


def plain_name(text: str, fallback: str) -> str:
    """Return `text` with letters, digits, `-` and `_` alone, of any script; `fallback` when nothing is left.

    Quotes, slashes, `%`, spaces and emoji become `_`; none stands at an end, nor does `-`, which a program
    would take for an option. A device name of Windows gets a `_` behind it.
    """
    # combined forms: a Mac would otherwise store another name than the draft refers to
    letters = (c if c.isalnum() or c == "-" else "_" for c in unicodedata.normalize("NFKC", text))
    name = "_".join(filter(None, "".join(letters).split("_")))[:_MOST_CHARACTERS].strip("-_")
    while len(name.encode()) > _MOST_BYTES:
        name = name[:-1]
    if not name:
        return fallback
    return f"{name}_" if name.lower() in _RESERVED else name


def clip_name(number: int, title: str, suffix: str = ".mp4") -> str:
    """Return the file name of the clip with a number (from 1): `003_title.mp4`."""
    return f"{number:03d}_{plain_name(title, 'clip')}{suffix}"
