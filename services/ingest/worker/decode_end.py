"""Look for the end of an image in its bytes: decoders overlook that it is missing (domain.md 3.8)."""

from __future__ import annotations

_IMAGE, _EXTENSION = 0x2C, 0x21


def is_whole(raw: bytes, extension: str) -> bool:
    """Tell whether the end is there, in a file that begins as the extension says; more may be behind it."""
    match extension:
        case "jpg":
            return raw.rfind(b"\xff\xd9", _first_scan(raw)) >= 0
        case "png":
            return b"IEND\xaeB`\x82" in raw[-(1 << 16) :]
        case "webp":
            return int.from_bytes(raw[4:8], "little") + 8 <= len(raw)
        case "gif":
            return _gif_ends(raw)
        case _:
            return True  # AVIF's decoder misses each byte


def _first_scan(raw: bytes) -> int:
    """Return where the pixels of a JPEG begin: behind the headers, which may hold a whole thumbnail."""
    position = 2
    while position + 4 <= len(raw):
        if raw[position] != 0xFF:
            position += 1
            continue
        marker = raw[position + 1]
        if marker in {0xFF, 0x00, 0x01} or 0xD0 <= marker <= 0xD8:
            position += 1 if marker == 0xFF else 2
        elif marker == 0xDA:
            return position + 2
        else:
            position += 2 + int.from_bytes(raw[position + 2 : position + 4])
    return len(raw)


def _gif_ends(raw: bytes) -> bool:
    """Tell whether the blocks of a GIF come to its trailer, or to a byte that begins no block.

    Browsers take such a byte for the end, whatever is behind it: some encoders write a zero too many.
    """
    position = 13 + _colours(raw, 10)
    while position < len(raw):
        if raw[position] == _EXTENSION:
            position += 2
        elif raw[position] == _IMAGE:
            position += 11 + _colours(raw, position + 9)
        else:
            return True
        while position < len(raw) and raw[position]:  # pieces of a block, each behind its length
            position += 1 + raw[position]
        position += 1
    return False


def _colours(raw: bytes, flags_at: int) -> int:
    """Return the bytes of the table of colours that follows these flags."""
    flags = raw[flags_at] if flags_at < len(raw) else 0
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0
