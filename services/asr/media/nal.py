"""The units that H.264 and HEVC streams are made of, and the numbers inside them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_ESCAPED = re.compile(rb"\x00\x00\x03")
# at the end, too: no unit ends with a zero
_TO_ESCAPE = re.compile(rb"\x00\x00(?=[\x00-\x03]|\Z)")


class NotUnderstood(ValueError):
    """A track's header or a unit isn't of the kind that can be spliced."""


def units(sample: bytes, length_size: int) -> Iterator[bytes]:
    """Yield the units of a sample, each behind its length in `length_size` bytes; a cut one ends it."""
    at = 0
    while at + length_size < len(sample):
        length = int.from_bytes(sample[at : at + length_size], "big")
        at += length_size
        yield sample[at : at + length]
        at += length


def sized_units(record: bytes, at: int, count: int) -> tuple[tuple[bytes, ...], int]:
    """Read `count` units, each behind two bytes of length; returns them and where they end.

    Raises:
        NotUnderstood: the record ends early.
    """
    found: list[bytes] = []
    for _ in range(count):
        length = int.from_bytes(record[at : at + 2], "big")
        unit = record[at + 2 : at + 2 + length]
        if not length or len(unit) < length:
            raise NotUnderstood("the track's header ends early")
        found.append(unit)
        at += 2 + length
    return tuple(found), at


def packed(found: tuple[bytes, ...]) -> bytes:
    """Write units, each behind two bytes of length."""
    return b"".join(len(unit).to_bytes(2, "big") + unit for unit in found)


def sized(found: Iterable[bytes], length_size: int) -> bytes:
    """Write units as a sample has them, each behind its length in `length_size` bytes."""
    return b"".join(len(unit).to_bytes(length_size, "big") + unit for unit in found)


def bits(data: bytes) -> str:
    """Return the bits of some bytes as text."""
    return "".join(f"{byte:08b}" for byte in data)


def number_at(text: str, at: int) -> tuple[int, int]:
    """Read the Exp-Golomb number at a place of some bits; returns it and how many bits it has.

    Raises:
        NotUnderstood: there is none.
    """
    one = text.find("1", at)
    length = 2 * (one - at) + 1
    if one < 0 or at + length > len(text):
        raise NotUnderstood("a number is missing in a parameter set")
    return int(text[one : at + length], 2) - 1, length


def number_bits(number: int) -> str:
    """Write an Exp-Golomb number."""
    digits = f"{number + 1:b}"
    return "0" * (len(digits) - 1) + digits


def with_number(payload: bytes, at: int, number: int) -> bytes:
    """Put another number in the place of the one at bit `at` of a parameter set; what follows it moves.

    Raises:
        NotUnderstood: there is no number, or no end.
    """
    text = bits(payload)
    _, length = number_at(text, at)
    end = text.rfind("1")
    if end < at + length:
        raise NotUnderstood("a parameter set has no end")
    changed = text[:at] + number_bits(number) + text[at + length : end] + "1"
    changed += "0" * (-len(changed) % 8)
    return bytes(int(changed[i : i + 8], 2) for i in range(0, len(changed), 8))


def unescaped(unit: bytes) -> bytes:
    """Take out the bytes that keep start codes from appearing inside a unit."""
    return _ESCAPED.sub(b"\x00\x00", unit)


def escaped(unit: bytes) -> bytes:
    """Put them in again."""
    return _TO_ESCAPE.sub(b"\x00\x00\x03", unit)
