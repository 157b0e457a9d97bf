"""Difference hashes: every near one is found by its parts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.review.similarity import bands, near, signed

hashes = st.integers(0, (1 << 64) - 1)


@given(hashes, st.sets(st.integers(0, 63), max_size=6))
def test_hashes_of_at_most_six_differing_bits_meet_in_a_part(value: int, flipped: set[int]) -> None:
    other = value
    for bit in flipped:
        other ^= 1 << bit
    one, two = signed(f"{value:016x}"), signed(f"{other:016x}")
    assert any(b in near(a) for a, b in zip(bands(one), bands(two), strict=True))


@given(hashes)
def test_a_hash_fits_a_bigint_and_keeps_its_bits(value: int) -> None:
    number = signed(f"{value:016x}")
    assert -(1 << 63) <= number < 1 << 63
    assert sum(part << 16 * (3 - i) for i, part in enumerate(bands(number))) == value


def test_a_part_has_sixteen_neighbours() -> None:
    assert len(set(near(0))) == 17
    assert max(near(0)) < 1 << 16
