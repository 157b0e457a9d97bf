"""The frame code: what is drawn is read back, and nothing else is taken for it."""

import io
import random

import numpy as np
import pytest
from PIL import Image

from samples.frame_code import BITS, NoFrameCode, draw_code, frame_number


def blank(width: int = 416, height: int = 234) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
    return np.full((height, width), 120, dtype=np.uint8)


@pytest.mark.parametrize("size", [(416, 234), (320, 180), (208, 120), (1920, 1080)])
def test_numbers_are_read_back_at_any_size(size: tuple[int, int]) -> None:
    for number in [0, 1, (1 << BITS) - 1, *random.Random(7).sample(range(1 << BITS), 40)]:
        picture = blank(*size)
        draw_code(picture, number)
        assert frame_number(picture) == number
        assert frame_number(np.stack([picture] * 3, axis=2)) == number


def test_a_number_survives_scaling_and_hard_jpeg_compression() -> None:
    picture = blank()
    draw_code(picture, 70_123)
    small = io.BytesIO()
    Image.fromarray(picture).resize((330, 170)).save(small, "JPEG", quality=20)
    assert frame_number(np.asarray(Image.open(small))) == 70_123


def test_a_picture_without_code_is_refused() -> None:
    for picture in (blank(), np.zeros((180, 320), np.uint8), np.full((180, 320), 255, np.uint8)):
        with pytest.raises(NoFrameCode):
            frame_number(picture)


def test_a_flipped_bit_is_noticed() -> None:
    first, second = blank(), blank()
    draw_code(first, 4)
    draw_code(second, 5)
    mixed = first.copy()
    column = np.flatnonzero((first != second).any(axis=0))[0]
    block = slice(column, column + round(416 / 26))
    mixed[:, block] = second[:, block]
    with pytest.raises(NoFrameCode):
        frame_number(mixed)


@pytest.mark.parametrize("number", [-1, 1 << BITS])
def test_a_number_that_does_not_fit_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match="a frame number is"):
        draw_code(blank(), number)
