"""Free images of their metadata without touching a pixel.

EXIF may hold where a photograph was taken and XMP who edited it. Only the orientation and the colour profile
stay, since the picture looks wrong without them (domain.md 4.8). Stored originals are never changed.
"""

from __future__ import annotations

from collections.abc import Callable

from services.review.publish.avif import strip_avif
from services.review.publish.gif import strip_gif
from services.review.publish.jpeg import strip_jpeg
from services.review.publish.png import strip_png
from services.review.publish.webp import strip_webp

_STRIPPERS: dict[str, Callable[[bytes], bytes]] = {
    "image/jpeg": strip_jpeg,
    "image/png": strip_png,
    "image/webp": strip_webp,
    "image/gif": strip_gif,
    "image/avif": strip_avif,
}


class NotStrippable(Exception):
    """The format isn't known, or the bytes aren't what their type says."""


def strip(data: bytes, content_type: str) -> bytes:
    """Return the image without its metadata.

    Raises:
        NotStrippable: nothing may be shown then.
    """
    stripper = _STRIPPERS.get(content_type)
    if stripper is None:
        raise NotStrippable(f"no way is known to free {content_type} of its metadata")
    try:
        return stripper(data)
    except (ValueError, IndexError, KeyError) as error:
        raise NotStrippable(f"the bytes are no whole {content_type}: {error}") from error
