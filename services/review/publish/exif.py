"""Read the one EXIF field that a picture needs, and write a block with nothing else in it."""

from __future__ import annotations

_ORIENTATION = 0x0112


def orientation(tiff: bytes) -> int:
    """Return the orientation (1–8) that a TIFF block states; 1 when it states none or is damaged."""
    order = {b"II": "little", b"MM": "big"}.get(tiff[:2])
    if order is None:
        return 1

    def number(at: int, size: int) -> int:
        return int.from_bytes(tiff[at : at + size], "little" if order == "little" else "big")

    directory = number(4, 4)
    for entry in range(min(number(directory, 2), 1000)):
        at = directory + 2 + 12 * entry
        if number(at, 2) == _ORIENTATION:
            value = number(at + 8, 2)
            return value if 1 <= value <= 8 else 1
    return 1


def minimal(value: int) -> bytes:
    """Return a TIFF block that states the orientation alone."""
    entry = _ORIENTATION.to_bytes(2, "big") + b"\0\3" + b"\0\0\0\1" + value.to_bytes(2, "big") + b"\0\0"
    return b"MM\0*\0\0\0\x08" + b"\0\1" + entry + b"\0\0\0\0"
