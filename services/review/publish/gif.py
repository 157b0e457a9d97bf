"""GIF: keep frames and looping, drop comments, XMP and whatever follows the end."""

from __future__ import annotations

_EXTENSION, _IMAGE, _TRAILER = 0x21, 0x2C, 0x3B
_GRAPHIC_CONTROL, _APPLICATION = 0xF9, 0xFF
_LOOPING = (b"NETSCAPE2.0", b"ANIMEXTS1.0")


def strip_gif(data: bytes) -> bytes:
    """Return the GIF with its frames, their timing and looping only."""
    if data[:6] not in {b"GIF87a", b"GIF89a"}:
        raise ValueError("no GIF")
    position = 13 + _table_bytes(data[10])
    kept = [data[:position]]
    while data[position] != _TRAILER:
        start, kind = position, data[position]
        if kind == _IMAGE:
            position = _after_blocks(data, position + 10 + _table_bytes(data[position + 9]) + 1)
            kept.append(data[start:position])
        elif kind == _EXTENSION:
            label = data[position + 1]
            position = _after_blocks(data, position + 2)
            looping = label == _APPLICATION and data[start + 3 : start + 14] in _LOOPING
            if label == _GRAPHIC_CONTROL or looping:
                kept.append(data[start:position])
        else:
            raise ValueError("no block where one must be")
    return b"".join([*kept, bytes([_TRAILER])])


def _table_bytes(flags: int) -> int:
    """Return the size of the colour table that a descriptor's flags announce."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _after_blocks(data: bytes, position: int) -> int:
    """Return the position after a run of sub-blocks."""
    while data[position]:
        position += 1 + data[position]
    return position + 1
