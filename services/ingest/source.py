"""Normalise what identifies an article (domain.md 3.10)."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from libs.common.errors import FieldViolation

MAX_SOURCE_CHARACTERS = 32
MAX_SOURCE_URL_CHARACTERS = 512

# How nearly every image's address begins: nothing in it needs a closer look.
_PLAIN = re.compile(r"https?://[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*(?:/|$)")


def normalise_source(source: str) -> str:
    """Return the source trimmed and lower-cased."""
    return source.strip().lower()


def normalise_url(url: str) -> str:
    """Return the article's address trimmed and without its fragment, otherwise exact."""
    return url.strip().partition("#")[0].rstrip()


def source_violations(source: str, source_url: str, path: str = "") -> list[FieldViolation]:
    """Return what is wrong with a normalised source key; over-long values are refused, never cut.

    `path` is what stands before the fields' names (`gallery.`).
    """
    found = []
    if len(source) > MAX_SOURCE_CHARACTERS:
        found.append(FieldViolation(f"{path}source", f"at most {MAX_SOURCE_CHARACTERS} characters"))
    if len(source_url) > MAX_SOURCE_URL_CHARACTERS:
        found.append(FieldViolation(f"{path}source_url", f"at most {MAX_SOURCE_URL_CHARACTERS} characters"))
    return found


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
