"""JPEG: keep the picture's own segments, drop application data, comments and whatever follows the end."""

from __future__ import annotations

import re

from services.review.publish import exif

_START, _END, _SCAN = 0xD8, 0xD9, 0xDA
_APP0, _APP1, _APP2, _APP14, _APP15, _COMMENT = 0xE0, 0xE1, 0xE2, 0xEE, 0xEF, 0xFE
# In a scan 0xFF is followed by 0 (a data byte) or a restart marker; anything else ends the scan.
_AFTER_SCAN = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")


def strip_jpeg(data: bytes) -> bytes:
    """Return the JPEG with JFIF, colour profile and orientation only."""
    if data[:2] != bytes([0xFF, _START]):
        raise ValueError("no JPEG")
    kept: list[bytes] = []
    turned, position = 1, 2
    while True:
        marker, position = _marker(data, position)
        if marker == _END:
            break
        end = position + int.from_bytes(data[position : position + 2], "big")
        payload = data[position + 2 : end]
        if end > len(data) or end < position + 2:
            raise ValueError("a segment runs beyond the end")
        if marker == _APP1 and payload.startswith(b"Exif\0"):
            turned = exif.orientation(payload[6:])
        segment = _kept(marker, payload)
        if segment is not None:
            kept.append(bytes([0xFF, marker]) + (len(segment) + 2).to_bytes(2, "big") + segment)
        position = end
        if marker == _SCAN:
            following = _AFTER_SCAN.search(data, position)
            if following is None:
                raise ValueError("the picture is cut off")
            kept.append(data[position : following.start()])
            position = following.start()
    return bytes([0xFF, _START]) + _jfif_first(kept, turned) + bytes([0xFF, _END])


def _marker(data: bytes, position: int) -> tuple[int, int]:
    """Return the next marker and the position after it; fill bytes are passed over."""
    if data[position] != 0xFF:
        raise ValueError("no marker where one must be")
    while data[position] == 0xFF:
        position += 1
    return data[position], position + 1


def _kept(marker: int, payload: bytes) -> bytes | None:
    """Return what stays of a segment, None when nothing does."""
    if marker == _APP0 and payload.startswith(b"JFIF\0"):
        return payload[:12] + b"\0\0"  # its thumbnail goes
    if marker == _APP2:  # colour profile; other uses hold whole pictures with EXIF of their own
        return payload if payload.startswith(b"ICC_PROFILE\0") else None
    if marker == _APP14:
        return payload if payload.startswith(b"Adobe") else None
    if _APP0 <= marker <= _APP15 or marker == _COMMENT:
        return None
    return payload


def _jfif_first(kept: list[bytes], turned: int) -> bytes:
    """Join the segments, the orientation right behind JFIF, where readers look for it."""
    if turned == 1:
        return b"".join(kept)
    payload = b"Exif\0\0" + exif.minimal(turned)
    block = bytes([0xFF, _APP1]) + (len(payload) + 2).to_bytes(2, "big") + payload
    first = 1 if kept and kept[0][1] == _APP0 else 0
    return b"".join([*kept[:first], block, *kept[first:]])
