"""Which stored objects review's rows need: what a backup must hold."""

from typing import Any

from sqlalchemy import Select, select

from services.review.models_media import media


def needed() -> Select[Any]:
    """Select key, size in bytes and SHA-256 of each image that is live (domain.md 4.9)."""
    return select(media.c.key, media.c.size_bytes, media.c.sha256).where(media.c.state == "live")
