"""What a signature is made of, and what is refused."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from frontrow.client import sign

from services.ingest.errors import BadSignature, UnknownKey
from services.ingest.signature import Credentials, check_signature, expected_signature

METHOD = "/frontrow.ingest.v1.IngestService/SubmitGallery"
NONCE = "0123456789abcdef"


def credentials(**changes: str) -> Credentials:
    values = {"key_id": "fk_1", "timestamp": "1700000000", "nonce": NONCE, "signature": ""} | changes
    return Credentials(**values)


def test_the_signature_is_the_hmac_of_five_lines() -> None:
    text = f"v1\n{METHOD}\n1700000000\n{NONCE}\n{hashlib.sha256(b'request').hexdigest()}"
    wanted = hmac.new(b"secret", text.encode(), "sha256").hexdigest()
    assert expected_signature("secret", METHOD, credentials(), b"request") == wanted


def test_a_known_vector_stays_what_it_is() -> None:
    found = expected_signature("s3cret", METHOD, credentials(), b"\x0a\x02hi")
    # made with openssl dgst -sha256 -hmac
    assert found == "96b3a1c0c56b62567dff54a8b209d77083842c171971866505e760892bc0bd5d"


def test_what_the_client_signs_the_server_accepts() -> None:
    found = Credentials.from_metadata(sign(b"request", key_id="fk_1", secret="s", now=1_700_000_000.9))
    check_signature("s", METHOD, found, b"request")
    assert found.timestamp == "1700000000"


@pytest.mark.parametrize("what", ["secret", "method", "request", "timestamp", "nonce", "signature"])
def test_a_change_anywhere_breaks_the_signature(what: str) -> None:
    signature = expected_signature("s", METHOD, credentials(), b"request")
    parts = {
        "secret": "s",
        "method": METHOD,
        "request": b"request",
        "timestamp": "1700000000",
        "nonce": NONCE,
    }
    parts["signature"] = signature
    parts[what] = {"request": b"Request", "signature": signature.upper()}.get(what, f"{parts[what]}0")
    sent = credentials(
        timestamp=str(parts["timestamp"]), nonce=str(parts["nonce"]), signature=str(parts["signature"])
    )
    with pytest.raises(BadSignature):
        check_signature(str(parts["secret"]), str(parts["method"]), sent, parts["request"])  # type: ignore[arg-type]


@pytest.mark.parametrize("nonce", ["", "short", "a" * 65, "with space 012345", "ümlaut0123456789"])
def test_a_nonce_of_another_shape_is_refused_though_signed(nonce: str) -> None:
    unsigned = credentials(nonce=nonce)
    sent = credentials(nonce=nonce, signature=expected_signature("s", METHOD, unsigned, b""))
    with pytest.raises(BadSignature, match="16 to 64"):
        check_signature("s", METHOD, sent, b"")


@pytest.mark.parametrize("timestamp", ["", "now", "1.5", "-5", "١٧٠٠"])
def test_a_time_that_is_no_number_is_refused_though_signed(timestamp: str) -> None:
    unsigned = credentials(timestamp=timestamp)
    sent = credentials(timestamp=timestamp, signature=expected_signature("s", METHOD, unsigned, b""))
    with pytest.raises(BadSignature, match="Unix seconds"):
        check_signature("s", METHOD, sent, b"")


def test_a_signature_beyond_ascii_is_refused_and_not_an_error() -> None:
    with pytest.raises(BadSignature):
        check_signature("s", METHOD, credentials(signature="é" * 64), b"")


def test_a_call_without_a_key_id_is_told_to_sign() -> None:
    with pytest.raises(UnknownKey):
        Credentials.from_metadata([("x-frontrow-nonce", NONCE)])
