"""Tell which addresses of images can be fetched."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

# How nearly every image's address begins: nothing in it needs a closer look.
_PLAIN = re.compile(r"https?://[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*(?:/|$)")


def image_url_problem(url: str) -> str | None:
    """Return what is wrong with an image's address, None when it can be fetched."""
    if " " in url or not url.isprintable():  # all other white space isn't printable
        return "must not contain spaces or control characters"
    if _PLAIN.match(url):
        return None
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "must be a well-formed address"
    if parts.scheme.lower() not in {"http", "https"}:
        return "must be an http or https address"
    return None if host else "must name a host"
