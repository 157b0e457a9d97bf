"""PNG: keep the chunks that make the picture, drop texts, times, EXIF and whatever follows the end."""

from __future__ import annotations

import zlib

from services.review.publish import exif

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_KEPT = frozenset(
    {
        b"tRNS",
        b"gAMA",
        b"cHRM",
        b"sRGB",
        b"iCCP",
        b"sBIT",
        b"bKGD",
        b"pHYs",
        b"hIST",
        b"sPLT",
        b"cICP",
        b"mDCV",
    }
    | {b"cLLI", b"acTL", b"fcTL", b"fdAT"}
)


def strip_png(data: bytes) -> bytes:
    """Return the PNG with its critical chunks, colour, animation and orientation only."""
    if not data.startswith(_SIGNATURE):
        raise ValueError("no PNG")
    kept, position = [_SIGNATURE], len(_SIGNATURE)
    while True:
        length = int.from_bytes(data[position : position + 4], "big")
        kind, end = data[position + 4 : position + 8], position + 12 + length
        if end > len(data) or len(kind) != 4:
            raise ValueError("a chunk runs beyond the end")
        critical = not kind[0] & 0x20  # an upper-case first letter
        if critical or kind in _KEPT:
            kept.append(data[position:end])
        elif kind == b"eXIf":
            turned = exif.orientation(data[position + 8 : end - 4])
            if turned != 1:
                kept.append(_chunk(b"eXIf", exif.minimal(turned)))
        position = end
        if kind == b"IEND":
            return b"".join(kept)


def _chunk(kind: bytes, payload: bytes) -> bytes:
    checksum = zlib.crc32(kind + payload)
    return len(payload).to_bytes(4, "big") + kind + payload + checksum.to_bytes(4, "big")
