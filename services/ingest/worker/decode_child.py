"""Decode one image after another in a process of its own: `python -m services.ingest.worker.decode_child`.

Hostile bytes meet the decoder here, where a memory limit and a timeout end what goes wrong.
"""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, UnidentifiedImageError

from services.ingest.worker.decode_end import is_whole
from services.ingest.worker.decode_memory import keep_blocks

MAX_PIXELS = 60_000_000
MAX_SIDE = 65_535
MAX_FRAMES = 200
MAX_PIXELS_OF_ALL_FRAMES = 4 * MAX_PIXELS
MAX_WEBP_SIDE = 16_383

# Pillow's name of the format -> (extension, media type); MPO is a JPEG with further pictures behind it
TYPES = {
    "JPEG": ("jpg", "image/jpeg"),
    "MPO": ("jpg", "image/jpeg"),
    "PNG": ("png", "image/png"),
    "WEBP": ("webp", "image/webp"),
    "AVIF": ("avif", "image/avif"),
    "GIF": ("gif", "image/gif"),
}
_FORMATS = ("JPEG", "PNG", "WEBP", "AVIF", "GIF")
_ORIENTATION_TAG = 0x0112
_TURNS = {
    2: (Image.Transpose.FLIP_LEFT_RIGHT,),
    3: (Image.Transpose.ROTATE_180,),
    4: (Image.Transpose.FLIP_TOP_BOTTOM,),
    5: (Image.Transpose.TRANSPOSE,),
    6: (Image.Transpose.ROTATE_270,),
    7: (Image.Transpose.TRANSVERSE,),
    8: (Image.Transpose.ROTATE_90,),
}
_SIDEWAYS = frozenset({5, 6, 7, 8})
# How the formats of the list begin: bytes that begin so and can't be opened are a broken image.
_BEGINNINGS = (b"\xff\xd8\xff", b"\x89PNG\r\n", b"GIF8")


class Refusal(Exception):
    """The bytes are no image that is taken."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """An encoded smaller picture."""

    width: int
    height: int
    raw: bytes


def handle(request: dict[str, Any], _emit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Decode the file at `path` whole and make thumbnails of the widths asked for, beside it.

    Answers what the image is; or `refused` with a reason; or `trouble` when the file can't be read or the
    thumbnails not be written. What a decoder says of hostile bytes stays here.
    """
    path = Path(request["path"])
    try:
        # read at once: what the disk has to say is said here, and an error while decoding is the image's
        found, small = _inspect(path.read_bytes(), [int(width) for width in request["thumbnail_widths"]])
        found["thumbnails"] = [_write(each, path) for each in small]
    except Refusal as refusal:
        return {"refused": {"reason": refusal.reason, "message": refusal.message}}
    except MemoryError:
        return {"refused": {"reason": "TOO_MANY_PIXELS", "message": "decoding it takes too much memory"}}
    except OSError as error:
        return {"trouble": error.strerror}
    return found


def _inspect(raw: bytes, widths: list[int]) -> tuple[dict[str, Any], list[Thumbnail]]:
    try:
        image = Image.open(io.BytesIO(raw), formats=_FORMATS)
    except UnidentifiedImageError as error:
        if _begins_like_an_image(raw):
            raise _broken(error) from error
        raise Refusal("NOT_AN_IMAGE", "it is no JPEG, PNG, WebP, AVIF or GIF") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_many_pixels() from error
    except Exception as error:
        raise _broken(error) from error
    with image:
        width, height = image.size
        if width * height > MAX_PIXELS or max(width, height) > MAX_SIDE:
            raise _too_many_pixels()
        if min(width, height) < 1:
            raise Refusal("BROKEN_IMAGE", "it has no pixels")
        extension, content_type = TYPES[image.format or ""]
        if not is_whole(raw, extension):
            raise Refusal("BROKEN_IMAGE", "its end is missing")
        _decode_every_frame(image)
        sideways = _orientation(image) in _SIDEWAYS
        shown_width = height if sideways else width
        picture = _upright(image, min(max(widths, default=64), shown_width))
    found = {
        "extension": extension,
        "content_type": content_type,
        "width": width,
        "height": height,
        "dhash": dhash(picture),
    }
    return found, _thumbnails(picture, [each for each in widths if each < shown_width])


def _begins_like_an_image(raw: bytes) -> bool:
    head = raw[:12]
    boxed = head[8:12] == b"WEBP" if head[:4] == b"RIFF" else head[4:] in {b"ftypavif", b"ftypavis"}
    return boxed or head.startswith(_BEGINNINGS)


def _decode_every_frame(image: Image.Image) -> None:
    """Decode all frames; the first one is in `image` afterwards.

    Of an MPO the first alone: that is what everybody shows, and a site that resizes one often leaves a list
    of pictures that are gone.
    """
    pixels, frame = 0, 0
    try:
        while True:
            image.load()
            pixels += image.width * image.height
            frame += 1
            _check_frames(frame, pixels)
            if image.format == "MPO":
                return
            try:
                image.seek(frame)
            except EOFError:
                break
        if frame > 1:
            image.seek(0)
            image.load()
    except (Refusal, MemoryError):
        raise
    except Exception as error:
        raise _broken(error) from error


def _check_frames(count: int, pixels: int) -> None:
    if count > MAX_FRAMES or pixels > MAX_PIXELS_OF_ALL_FRAMES:
        raise Refusal("TOO_MANY_FRAMES", f"at most {MAX_FRAMES} frames are taken")


def _orientation(image: Image.Image) -> int:
    """Return the EXIF orientation, 1 to 8; EXIF that can't be read turns nothing."""
    try:
        return int(image.getexif().get(_ORIENTATION_TAG, 1))
    except Exception:  # noqa: BLE001  (the tags are as hostile as the pixels)
        return 1


def _upright(image: Image.Image, width: int) -> Image.Image:
    """Return a copy `width` wide as a person sees it: 8 bits, RGB or RGBA, turned by its EXIF orientation."""
    orientation = _orientation(image)
    profile = image.info.get("icc_profile") if image.mode in {"RGB", "RGBA"} else None
    scale = width / (image.height if orientation in _SIDEWAYS else image.width)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    if image.mode not in {"RGB", "RGBA", "L"}:
        image = _eight_bits(image)
    small = _resized(image, size)
    if small.mode == "L":
        small = small.convert("RGB")
    for turn in _TURNS.get(orientation, ()):
        small = small.transpose(turn)
    small.info = {"icc_profile": profile} if profile else {}
    return small


def _eight_bits(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):
        # 16-bit grey: convert() would clip at 255 instead of scaling
        return image.convert("I").point(lambda value: value / 256).convert("L")
    transparent = image.mode in {"LA", "PA", "La", "RGBa"} or "transparency" in image.info
    return image.convert("RGBA" if transparent else "RGB")


def _resized(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Return a smaller copy: whole steps by averaging, the rest by a filter that sharpens no noise.

    On 8.6 megapixels this takes a quarter of the time of Lanczos, whose window goes wide over every pixel.
    Steps of 4 take half the time of one large one.
    """
    while min(image.width // size[0], image.height // size[1]) >= 8:
        image = image.reduce(4)
    return image.resize(size, Image.Resampling.HAMMING, reducing_gap=1.0)


def _thumbnails(picture: Image.Image, widths: list[int]) -> list[Thumbnail]:
    """Make thumbnails, widest first, each of the one before it; return them smallest first."""
    made: list[Thumbnail] = []
    for width in sorted(widths, reverse=True):
        picture = _resized(picture, (width, max(1, round(picture.height * width / picture.width))))
        if max(picture.size) <= MAX_WEBP_SIDE:  # of a very long page the narrow ones alone
            made.insert(0, Thumbnail(width, picture.height, _encoded(picture)))
    return made


def _encoded(picture: Image.Image) -> bytes:
    target = io.BytesIO()
    profile = picture.info.get("icc_profile")
    # the least effort: methods 1 and 2 take 20 and 70 % more time for 3 and 17 % less bytes
    picture.save(target, "WEBP", quality=80, method=0, icc_profile=profile)
    return target.getvalue()


def _write(thumbnail: Thumbnail, beside: Path) -> dict[str, Any]:
    target = beside.with_name(f"{beside.name}.{thumbnail.width}.webp")
    target.write_bytes(thumbnail.raw)
    return {
        "path": str(target),
        "width": thumbnail.width,
        "height": thumbnail.height,
        "size": len(thumbnail.raw),
        "sha256": hashlib.sha256(thumbnail.raw).hexdigest(),
    }


def dhash(picture: Image.Image) -> str:
    """Return the difference hash of a picture: is each of 8 × 8 cells brighter than its right neighbour."""
    grey = picture.convert("RGB").convert("L")
    cells = grey.resize((9, 8), Image.Resampling.LANCZOS, reducing_gap=2.0).tobytes()
    bits = 0
    for row in range(8):
        for column in range(8):
            bits = bits << 1 | (cells[row * 9 + column] > cells[row * 9 + column + 1])
    return f"{bits:016x}"


def _broken(error: Exception) -> Refusal:
    return Refusal("BROKEN_IMAGE", f"it can't be decoded to its end ({type(error).__name__})")


def _too_many_pixels() -> Refusal:
    return Refusal("TOO_MANY_PIXELS", f"at most {MAX_PIXELS:,} pixels are taken, and {MAX_SIDE:,} a side")


def configure() -> None:
    """Make Pillow refuse large images where it only warns, and keep the memory of one image for the next."""
    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    keep_blocks()
    warnings.simplefilter("error", Image.DecompressionBombWarning)


if __name__ == "__main__":
    from libs.common.child_pool import serve

    configure()
    serve(handle)
