"""Frame rates that editing applications know."""

from __future__ import annotations

from fractions import Fraction

NTSC = 1001
FRAME_RATES = (
    Fraction(24000, NTSC),
    Fraction(24),
    Fraction(25),
    Fraction(30000, NTSC),
    Fraction(30),
    Fraction(50),
    Fraction(60000, NTSC),
    Fraction(60),
)
# for sound without a picture, and a picture that doesn't say
DEFAULT_RATE = Fraction(25)


def timeline_rate(fps: Fraction) -> Fraction:
    """Return the rate that a timeline for material of `fps` frames a second has: the nearest known one.

    What a live recording claims on the average (29.2, 24.97) is no rate that an application can be told.
    """
    if fps <= 0:
        return DEFAULT_RATE
    return min(FRAME_RATES, key=lambda rate: abs(rate - fps))
