"""AVIF: overwrite in place whatever isn't the picture, so that no offset moves.

What stays is named, at each level: boxes, items and the bytes that a picture's item or a track points at.
The orientation of an AVIF is a property of the image (`irot`), not of its EXIF, and stays.
"""

from __future__ import annotations

from collections.abc import Iterator

_TOP = frozenset({b"ftyp", b"meta", b"moov", b"mdat"})
_OF_META = frozenset({b"hdlr", b"pitm", b"iinf", b"iloc", b"iprp", b"iref", b"idat", b"grpl", b"dinf"})
_PICTURES = frozenset({b"av01", b"grid", b"iovl", b"iden", b"tmap"})
# Boxes of a sequence that hold boxes, and those that describe its frames.
_HOLDERS = frozenset({b"moov", b"trak", b"edts", b"mdia", b"minf", b"dinf", b"stbl"})
_OF_TRACKS = frozenset(
    {
        b"mvhd", b"tkhd", b"tref", b"elst", b"mdhd", b"hdlr", b"vmhd", b"nmhd", b"dref", b"stsd", b"stts",
        b"ctts", b"stsc", b"stsz", b"stco", b"co64", b"stss", b"sdtp", b"sgpd", b"sbgp", b"cslg",
    }
)  # fmt: skip
# Decoders refuse a file whose EXIF is no TIFF; this one has no entries.
_NOTHING = bytes(4) + b"MM\0*\0\0\0\x08" + bytes(6)


def strip_avif(data: bytes) -> bytes:
    """Return the AVIF with its EXIF and XMP items emptied."""
    blank = bytearray(data)
    boxes = dict(_kept(data, blank, 0, len(data), _TOP))
    if b"ftyp" not in boxes or b"meta" not in boxes:
        raise ValueError("no AVIF")
    start, end = boxes[b"meta"]
    inner = dict(_kept(data, blank, start + 4, end, _OF_META))
    if b"moov" in boxes:
        _blank_tracks(data, blank, *boxes[b"moov"])
    pictures = _pictures(data, *inner[b"iinf"])
    shown, others = [], []
    for item, in_idat, extents in _locations(data, *inner[b"iloc"]):
        shift = inner[b"idat"][0] if in_idat else 0
        places = [(shift + offset, length) for offset, length in extents]
        if item in pictures:
            shown += places
        else:
            others.append(places)
    if b"moov" not in boxes and b"mdat" in boxes:  # else a track points there, too
        _blank_between(blank, *boxes[b"mdat"], shown)
    for places in others:
        _empty(blank, places)
    return bytes(blank)


def _kept(
    data: bytes, blank: bytearray, start: int, end: int, wanted: frozenset[bytes]
) -> Iterator[tuple[bytes, tuple[int, int]]]:
    """Yield kind and place of each box that is wanted; make the others `free` ones of zeros."""
    for kind, box, first, last in _boxes(data, start, end):
        if kind in wanted:
            yield kind, (first, last)
        else:
            blank[box + 4 : box + 8] = b"free"
            blank[first:last] = bytes(last - first)


def _blank_tracks(data: bytes, blank: bytearray, start: int, end: int) -> None:
    for kind, (first, last) in _kept(data, blank, start, end, _HOLDERS | _OF_TRACKS):
        if kind in _HOLDERS:
            _blank_tracks(data, blank, first, last)


def _empty(blank: bytearray, places: list[tuple[int, int]]) -> None:
    """Overwrite what an item holds."""
    content = _NOTHING.ljust(sum(length for _, length in places), b"\0")
    for first, length in places:
        if first + length > len(blank):
            raise ValueError("an item runs beyond the end")
        blank[first : first + length], content = content[:length], content[length:]


def _blank_between(blank: bytearray, start: int, end: int, shown: list[tuple[int, int]]) -> None:
    """Overwrite what no picture points at."""
    position = start
    for first, length in [*sorted(shown), (end, 0)]:
        if start <= position < first <= end:
            blank[position:first] = bytes(first - position)
        position = max(position, first + length)


def _boxes(data: bytes, position: int, end: int) -> Iterator[tuple[bytes, int, int, int]]:
    """Yield kind, start, start of the content and end of each box."""
    while position + 8 <= end:
        size, header = int.from_bytes(data[position : position + 4], "big"), 8
        kind = data[position + 4 : position + 8]
        if size == 1:
            size, header = int.from_bytes(data[position + 8 : position + 16], "big"), 16
        if size == 0:
            size = end - position
        if size < header or position + size > end:
            raise ValueError("a box runs beyond the end")
        yield kind, position, position + header, position + size
        position += size


def _pictures(data: bytes, start: int, end: int) -> set[int]:
    """Return the ids of the items that are pictures or made of some."""
    first = start + (6 if data[start] == 0 else 8)
    found = set()
    for kind, _, at, _ in _boxes(data, first, end):
        version = data[at]
        if kind != b"infe" or version < 2:
            continue
        width = 2 if version == 2 else 4
        item = int.from_bytes(data[at + 4 : at + 4 + width], "big")
        if data[at + 6 + width : at + 10 + width] in _PICTURES:
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
