"""Sign a submission: HMAC-SHA256 over method, time, nonce and the bytes of the request."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time

METHOD = "/frontrow.ingest.v1.IngestService/SubmitGallery"

_NONCE_BYTES = 18


def signature(secret: str, *, method: str, timestamp: str, nonce: str, request: bytes) -> str:
    """Return the signature of `request`, the serialised message, in lower-case hex."""
    text = f"v1\n{method}\n{timestamp}\n{nonce}\n{hashlib.sha256(request).hexdigest()}"
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def sign(
    request: bytes, *, key_id: str, secret: str, method: str = METHOD, now: float | None = None
) -> tuple[tuple[str, str], ...]:
    """Return the metadata that lets `request` in, with a fresh nonce.

    `now` is Unix seconds, None for this machine's clock; the server allows five minutes to either side.
    """
    timestamp = str(int(time.time() if now is None else now))
    nonce = secrets.token_urlsafe(_NONCE_BYTES)
    signed = signature(secret, method=method, timestamp=timestamp, nonce=nonce, request=request)
    return (
        ("x-frontrow-key-id", key_id),
        ("x-frontrow-timestamp", timestamp),
        ("x-frontrow-nonce", nonce),
        ("x-frontrow-signature", signed),
    )
