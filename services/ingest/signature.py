"""Check a spider's signature (domain.md 3.1); pure. Its time and nonce are checked where the call enters."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass

from services.ingest.errors import BadSignature, UnknownKey

KEY_ID, TIMESTAMP, NONCE, SIGNATURE = (
    "x-frontrow-key-id",
    "x-frontrow-timestamp",
    "x-frontrow-nonce",
    "x-frontrow-signature",
)
_NONCE_SHAPE = re.compile(r"[A-Za-z0-9_-]{16,64}")
_TIMESTAMP_SHAPE = re.compile(r"[0-9]{1,12}")


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a caller put into the call's metadata, as it came."""

    key_id: str
    timestamp: str
    nonce: str
    signature: str

    @classmethod
    def from_metadata(cls, metadata: Iterable[tuple[str, str | bytes]]) -> Credentials:
        """Read the four values; what is missing is empty. Raises UnknownKey without a key id."""
        values = {key: value for key, value in metadata if isinstance(value, str)}
        found = cls(*(values.get(key, "") for key in (KEY_ID, TIMESTAMP, NONCE, SIGNATURE)))
        if not found.key_id:
            raise UnknownKey(f"the call carries no {KEY_ID}: sign it with a key made by CreateSpider")
        return found


def expected_signature(secret: str, method: str, credentials: Credentials, request: bytes) -> str:
    """Return the signature a request must carry; `method` is `/package.Service/Method`."""
    digest = hashlib.sha256(request).hexdigest()
    text = f"v1\n{method}\n{credentials.timestamp}\n{credentials.nonce}\n{digest}"
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def check_signature(secret: str, method: str, credentials: Credentials, request: bytes) -> None:
    """Return if the signature is the key's. Raises BadSignature."""
    wanted = expected_signature(secret, method, credentials, request)
    # compared as bytes: compare_digest refuses str beyond ASCII
    if not hmac.compare_digest(wanted.encode(), credentials.signature.encode()):
        raise BadSignature(
            f"{SIGNATURE} doesn't fit request, method, timestamp, nonce and key: sign the serialised message"
        )
    if not _TIMESTAMP_SHAPE.fullmatch(credentials.timestamp):
        raise BadSignature(f"{TIMESTAMP} must be Unix seconds")
    if not _NONCE_SHAPE.fullmatch(credentials.nonce):
        raise BadSignature(f"{NONCE} must be 16 to 64 of A-Z, a-z, 0-9, _ and -")
