"""Real images of every kind that is taken, and ways to damage them."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Mapping
from pathlib import Path

from PIL import Image

PHOTOS = Path(__file__).parents[3] / "samples" / "photos"
TYPES = frozenset({"image/jpeg", "image/png", "image/webp", "image/avif", "image/gif"})
REASONS = frozenset({"BROKEN_IMAGE", "NOT_AN_IMAGE", "TOO_MANY_PIXELS", "TOO_MANY_FRAMES"})


def _photo() -> Image.Image:
    with Image.open(PHOTOS / "chelsea.jpg") as image:
        return image.convert("RGB").resize((180, 120))


def _encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def _animated(kind: str) -> bytes:
    frames = [_photo().rotate(30 * n) for n in range(4)]
    return _encoded(frames[0], kind, save_all=True, append_images=frames[1:])


def _exif() -> bytes:
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "a camera's words"
    return _encoded(_photo(), "JPEG", exif=exif, icc_profile=bytes(range(256)))


IMAGES: Mapping[str, Callable[[], bytes]] = {
    "jpeg": (PHOTOS / "chelsea.jpg").read_bytes,
    "jpeg, progressive": lambda: _encoded(_photo(), "JPEG", progressive=True),
    "jpeg, cmyk": lambda: _encoded(_photo().convert("CMYK"), "JPEG"),
    "jpeg, exif and profile": _exif,
    "mpo": lambda: _animated("MPO"),
    "png": lambda: _encoded(_photo(), "PNG"),
    "png, palette": lambda: _encoded(_photo().quantize(16), "PNG", transparency=3),
    "png, 16 bits": lambda: _encoded(_photo().convert("I;16"), "PNG"),
    "png, animated": lambda: _animated("PNG"),
    "webp": (PHOTOS / "astronaut.webp").read_bytes,
    "webp, lossless": lambda: _encoded(_photo().convert("RGBA"), "WEBP", lossless=True),
    "webp, animated": lambda: _animated("WEBP"),
    "avif": (PHOTOS / "coffee.avif").read_bytes,
    "avif, animated": lambda: _animated("AVIF"),
    "gif": lambda: _encoded(_photo(), "GIF"),
    "gif, animated": lambda: _animated("GIF"),
}


def mutated(body: bytes, chance: random.Random) -> bytes:
    """Return a damaged copy: bytes changed, mostly in the head, pieces cut or doubled, the end gone."""
    found = bytearray(body)
    for _ in range(chance.randint(1, 6)):
        kind = chance.randrange(6)
        at = chance.randrange(min(len(found), 256) if chance.random() < 0.5 else len(found))
        length = min(chance.choice([1, 2, 4, 16, 256]), len(found) - at)
        if kind <= 1:
            found[at] = chance.randrange(256)
        elif kind == 2:  # lengths and sizes are numbers of two or four bytes
            found[at : at + length] = chance.choice([b"\x00", b"\xff", b"\x7f"]) * length
        elif kind == 3 and len(found) > 64:
            del found[at : at + length]
        elif kind == 4:
            found[at:at] = found[at : at + length]
        else:
            other = chance.randrange(len(found))
            found[at : at + length] = found[other : other + length]
    if chance.random() < 0.2:
        del found[chance.randrange(1, len(found)) :]
    return bytes(found) or b"\x00"
