"""Galleries that break a rule: the signature comes first, and they spend as good ones do (domain.md 3.1)."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from frontrow.client import sign

from services.ingest.servicer import SUBMIT_METHOD
from tests.integration.ingest.conftest import Ingest
from tests.integration.ingest.submissions import refusal, submission


def no_http() -> bytes:
    """Return a gallery with an address that can't be fetched."""
    bad = submission()
    bad.gallery.images[0].url = "ftp://a.example/b.jpg"
    return bad.SerializeToString()


def no_images() -> bytes:
    """Return a gallery that breaks a rule of the proto."""
    bad = submission()
    del bad.gallery.images[:]
    return bad.SerializeToString()


def no_text() -> bytes:
    """Return a message with a text that is none."""
    return submission().SerializeToString().replace(b"vogue", b"\xed\xa0\x80ue", 1)


def no_message() -> bytes:
    """Return bytes that end in the middle of a field."""
    return submission().SerializeToString()[:-1]


BAD = (no_http, no_images, no_text, no_message)


@pytest.mark.parametrize("bad", BAD)
async def test_a_bad_gallery_spends_of_the_keys_budget_like_a_good_one(
    slow_lane: Ingest, bad: Callable[[], bytes]
) -> None:
    raw, call = bad(), slow_lane.channel.unary_unary(SUBMIT_METHOD)
    told = [
        (await refusal(call(raw, metadata=sign(raw, key_id=slow_lane.key_id, secret=slow_lane.secret))))[1]
        for _ in range(4)
    ]
    assert told == ["INVALID_ARGUMENT"] * 3 + ["RATE_LIMITED"]


@pytest.mark.parametrize("bad", BAD)
async def test_of_a_bad_gallery_the_key_the_signature_and_the_window_are_looked_at_first(
    ingest: Ingest, bad: Callable[[], bytes]
) -> None:
    raw, call, late = bad(), ingest.channel.unary_unary(SUBMIT_METHOD), time.time() + 4000
    signed_by = {
        "UNKNOWN_KEY": ("fk_none", "wrong", late),
        "BAD_SIGNATURE": (ingest.key_id, "wrong", late),
        "CLOCK_SKEW": (ingest.key_id, ingest.secret, late),
        "INVALID_ARGUMENT": (ingest.key_id, ingest.secret, time.time()),
    }
    for wanted, (key_id, secret, now) in signed_by.items():
        signed = sign(raw, key_id=key_id, secret=secret, now=now)
        assert (await refusal(call(raw, metadata=signed)))[1] == wanted
    assert (await refusal(call(raw)))[1] == "UNKNOWN_KEY"  # not signed at all
