"""AVIF: overwrite the content of EXIF and XMP items in place, so that no offset moves.

The orientation of an AVIF is a property of the image (`irot`), not of its EXIF, and stays.
"""

from __future__ import annotations

from collections.abc import Iterator

_METADATA = frozenset({b"Exif", b"mime"})
# Decoders refuse a file whose EXIF is no TIFF; this one has no entries.
_NOTHING = bytes(4) + b"MM\0*\0\0\0\x08" + bytes(6)


def strip_avif(data: bytes) -> bytes:
    """Return the AVIF with its EXIF and XMP items emptied."""
    boxes = {kind: (start, end) for kind, start, end in _boxes(data, 0, len(data))}
    if b"ftyp" not in boxes or b"meta" not in boxes:
        raise ValueError("no AVIF")
    start, end = boxes[b"meta"]
    inner = {kind: (a, b) for kind, a, b in _boxes(data, start + 4, end)}
    items = _metadata_items(data, *inner[b"iinf"])
    blank = bytearray(data)
    for item, in_idat, extents in _locations(data, *inner[b"iloc"]):
        if item not in items:
            continue
        shift = inner[b"idat"][0] if in_idat else 0
        content = _NOTHING.ljust(sum(length for _, length in extents), b"\0")
        for offset, length in extents:
            first = shift + offset
            if first + length > len(blank):
                raise ValueError("an item runs beyond the end")
            blank[first : first + length], content = content[:length], content[length:]
    return bytes(blank)


def _boxes(data: bytes, position: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield kind, start of the content and end of each box."""
    while position + 8 <= end:
        size, header = int.from_bytes(data[position : position + 4], "big"), 8
        kind = data[position + 4 : position + 8]
        if size == 1:
            size, header = int.from_bytes(data[position + 8 : position + 16], "big"), 16
        if size == 0:
            size = end - position
        if size < header or position + size > end:
            raise ValueError("a box runs beyond the end")
        yield kind, position + header, position + size
        position += size


def _metadata_items(data: bytes, start: int, end: int) -> set[int]:
    """Return the ids of the items that hold EXIF or XMP."""
    first = start + (6 if data[start] == 0 else 8)
    found = set()
    for kind, at, _ in _boxes(data, first, end):
        version = data[at]
        if kind != b"infe" or version < 2:
            continue
        width = 2 if version == 2 else 4
        item = int.from_bytes(data[at + 4 : at + 4 + width], "big")
        if data[at + 6 + width : at + 10 + width] in _METADATA:
            found.add(item)
    return found


def _locations(data: bytes, start: int, end: int) -> Iterator[tuple[int, bool, list[tuple[int, int]]]]:
    """Yield each item's id, whether it stands in `idat`, and its extents (offset, length)."""
    position = start

    def take(size: int) -> int:
        nonlocal position
        position += size
        if position > end:
            raise ValueError("the item table is cut off")
        return int.from_bytes(data[position - size : position], "big")

    version = take(1)
    take(3)
    sizes = take(2)
    offset_size, length_size, base_size, index_size = (sizes >> shift & 15 for shift in (12, 8, 4, 0))
    wide = 2 if version < 2 else 4
    for _ in range(take(wide)):
        item = take(wide)
        method = take(2) & 15 if version in {1, 2} else 0
        take(2)
        base = take(base_size)
        extents = []
        for _ in range(take(2)):
            if version in {1, 2}:
                take(index_size)
            offset = base + take(offset_size)
            extents.append((offset, take(length_size)))
        yield item, method == 1, extents
