"""The address of an object, for people and other programs; it never holds a secret."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, unquote, urlsplit


def object_address(store_url: str, key: str) -> str:
    """Return where `key` lies in the store that `store_url` names: `s3://bucket/…` or `file:///…`.

    Options of the URL, which may hold keys, are left out.
    """
    parts = urlsplit(store_url)
    if parts.scheme == "s3":
        prefix = unquote(parts.path).strip("/")
        return f"s3://{parts.netloc}/" + (f"{prefix}/{key}" if prefix else key)
    root = Path(unquote(parts.path)) if parts.scheme == "file" else Path(store_url)
    return f"{root.resolve().as_uri()}/{quote(key)}"
