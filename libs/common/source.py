"""Normalise what identifies an article, for every check and every insert of it (domain.md 3.10)."""

from __future__ import annotations

from libs.common.errors import FieldViolation

MAX_SOURCE_CHARACTERS = 32
MAX_SOURCE_URL_CHARACTERS = 512


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
