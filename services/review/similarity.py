"""Difference hashes: their distance, and the parts that an index finds near ones by."""

from __future__ import annotations

BANDS = 4
BAND_BITS = 16
MAX_DISTANCE = 6


def signed(digits: str) -> int:
    """Return 16 hex digits as the signed number that a bigint holds."""
    value = int(digits, 16)
    return value - (1 << 64) if value >= 1 << 63 else value


def bands(dhash: int) -> list[int]:
    """Return the four 16-bit parts of a (signed) hash, the highest first."""
    bits = dhash & (1 << 64) - 1
    return [bits >> BAND_BITS * (BANDS - 1 - band) & (1 << BAND_BITS) - 1 for band in range(BANDS)]


def near(value: int) -> list[int]:
    """Return a part and its 16 neighbours at one bit.

    At most 6 differing bits over 4 parts leave one part with at most one of them, so these find every match.
    """
    return [value, *(value ^ 1 << bit for bit in range(BAND_BITS))]
