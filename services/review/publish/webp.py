"""WebP: keep the picture's chunks and the colour profile, drop EXIF, XMP and unknown chunks."""

from __future__ import annotations

from collections.abc import Iterator

from services.review.publish import exif

_KEPT = frozenset({b"VP8 ", b"VP8L", b"VP8X", b"ALPH", b"ANIM", b"ANMF", b"ICCP"})
_KEPT_OF_A_FRAME = frozenset({b"VP8 ", b"VP8L", b"ALPH"})
_FRAME_HEADER_BYTES = 16
_HAS_EXIF, _HAS_XMP = 0x08, 0x04


def strip_webp(data: bytes) -> bytes:
    """Return the WebP with picture, animation, colour profile and orientation only."""
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP":
        raise ValueError("no WebP")
    limit = 8 + int.from_bytes(data[4:8], "little")
    if limit > len(data):
        raise ValueError("the file is cut off")
    kept: list[tuple[bytes, bytes]] = []
    turned = 1
    for kind, payload in _chunks(data, 12, limit):
        if kind == b"ANMF":
            kept.append((kind, _frame(payload)))
        elif kind in _KEPT:
            kept.append((kind, payload))
        elif kind == b"EXIF":
            turned = exif.orientation(payload.removeprefix(b"Exif\0\0"))
    if turned != 1:
        kept.append((b"EXIF", exif.minimal(turned)))
    body = b"".join(_chunk(kind, _flagged(kind, payload, turned != 1)) for kind, payload in kept)
    return b"RIFF" + (len(body) + 4).to_bytes(4, "little") + b"WEBP" + body


def _chunks(data: bytes, position: int, limit: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield kind and payload of each chunk."""
    while position + 8 <= limit:
        kind = data[position : position + 4]
        length = int.from_bytes(data[position + 4 : position + 8], "little")
        payload = data[position + 8 : position + 8 + length]
        if len(payload) != length:
            raise ValueError("a chunk runs beyond the end")
        yield kind, payload
        position += 8 + length + length % 2


def _frame(payload: bytes) -> bytes:
    """Return a frame of an animation with its place and its picture only: it may hold chunks of its own."""
    inner = _chunks(payload, _FRAME_HEADER_BYTES, len(payload))
    kept = (_chunk(kind, content) for kind, content in inner if kind in _KEPT_OF_A_FRAME)
    return payload[:_FRAME_HEADER_BYTES] + b"".join(kept)


def _flagged(kind: bytes, payload: bytes, has_exif: bool) -> bytes:
    """Return the payload; the header's flags say what is still there."""
    if kind != b"VP8X":
        return payload
    flags = payload[0] & ~(_HAS_EXIF | _HAS_XMP) | (_HAS_EXIF if has_exif else 0)
    return bytes([flags]) + payload[1:]


def _chunk(kind: bytes, payload: bytes) -> bytes:
    return kind + len(payload).to_bytes(4, "little") + payload + b"\0" * (len(payload) % 2)
