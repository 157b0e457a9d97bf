"""A frame's number, written into its picture as blocks and read back after compression.

The code is one row of equal blocks along the bottom of the picture: a white and a black guard, then
`BITS` bits with the highest first (white is 1), then the low `CHECK_BITS` bits of a check sum, so that a
picture without a code isn't read as a number. No text, hence no font.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

BITS = 20
CHECK_BITS = 4
_BLOCKS = 2 + BITS + CHECK_BITS
_HEIGHT_SHARE = 8  # the row is an eighth of the picture's height
_WHITE, _BLACK = 235, 16

Picture = npt.NDArray[np.uint8]
"""Grey (height, width) or colour (height, width, channels)."""


class NoFrameCode(ValueError):
    """The picture carries no readable frame number."""


def _check(number: int) -> int:
    total = 0
    while number:
        total += number & 0xF
        number >>= 4
    return (total * 7 + 5) % (1 << CHECK_BITS)


def _bits(number: int) -> list[int]:
    word = (number << CHECK_BITS) | _check(number)
    return [1, 0, *(word >> shift & 1 for shift in reversed(range(BITS + CHECK_BITS)))]


def _edges(width: int) -> list[int]:
    return [round(width * i / _BLOCKS) for i in range(_BLOCKS + 1)]


def draw_code(picture: Picture, number: int) -> None:
    """Write `number` (0 to 2^20 - 1) into the bottom of `picture`, in place.

    Raises:
        ValueError: the number doesn't fit.
    """
    if not 0 <= number < 1 << BITS:
        raise ValueError(f"a frame number is 0 to {(1 << BITS) - 1}, not {number}")
    height, width = picture.shape[:2]
    top, edges = height - height // _HEIGHT_SHARE, _edges(width)
    for i, bit in enumerate(_bits(number)):
        picture[top:, edges[i] : edges[i + 1]] = _WHITE if bit else _BLACK


def frame_number(picture: npt.NDArray[Any]) -> int:
    """Return the number written into `picture`.

    Blocks are read at their middle, so compression and scaling of the picture don't matter.

    Raises:
        NoFrameCode: there is no code, or it can't be read without doubt.
    """
    grey = picture if picture.ndim == 2 else picture[:, :, :3].mean(axis=2)
    height, width = grey.shape
    row, edges = height // _HEIGHT_SHARE, _edges(width)
    band = grey[height - row + row // 4 : height - row // 4]
    means = [float(band[:, a + (b - a) // 4 : b - (b - a) // 4].mean()) for a, b in itertools.pairwise(edges)]
    if means[0] < 170 or means[1] > 85 or any(85 <= m <= 170 for m in means):
        raise NoFrameCode("the bottom of the picture holds no frame code")
    word = 0
    for mean in means[2:]:
        word = word << 1 | (mean > 127)
    number, check = word >> CHECK_BITS, word & ((1 << CHECK_BITS) - 1)
    if _check(number) != check:
        raise NoFrameCode(f"the frame code's check sum is wrong (read {number})")
    return number
