"""How a decoding process holds its memory: ready for the next image, and in one piece."""

from __future__ import annotations

import ctypes
from contextlib import suppress

from PIL import Image

# Pillow's blocks that stay for the next image, 128 MiB in all: fresh memory for each is a third of a decode's
# time. They are small, since one that an image uses in part gives the rest back to the system.
BLOCK_BYTES = 1 << 20
KEPT_BLOCKS = 128
_M_MMAP_THRESHOLD = -3  # of malloc.h


def keep_blocks() -> None:
    """Keep the memory of one image for the next, and let go of what is beyond it.

    Every block is a mapping of its own. On the heap the kept ones would hold what lies free between them, and
    a good image that needs much at once would be found broken.
    """
    Image.core.set_block_size(BLOCK_BYTES)  # type: ignore[attr-defined]  # settings without another name
    Image.core.set_blocks_max(KEPT_BLOCKS)  # type: ignore[attr-defined]
    with suppress(AttributeError):  # C libraries other than glibc have no such setting
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, BLOCK_BYTES // 2)
