"""SubmitGallery takes whatever is sent, or refuses it by a reason of its own, and grows by none of it."""

from __future__ import annotations

import time
from collections.abc import Callable

import grpc
import pytest
from frontrow.ingest.v1 import gallery_pb2, ingest_service_pb2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from libs.common.client import error_info
from tests.bench.load import resident_bytes
from tests.wire.ingest.conftest import Spider

MOST_GROWTH_BYTES = 64 << 20  # the largest message that gRPC takes, sixteen times
Request = ingest_service_pb2.SubmitGalleryRequest

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
URLS = st.one_of(
    TEXT,
    TEXT.map(lambda text: f"https://a.example/{text}"),
    st.sampled_from(["https://a/1", "https://a/1#x", "http://[", "data:image/png;base64,AA", "https://é/"]),
    st.integers(2000, 9000).map(lambda length: "https://a/".ljust(length, "x")),
)
IMAGES = st.builds(
    gallery_pb2.GalleryImage, url=URLS, caption=TEXT, position=st.sampled_from([0, 1, 2, 2**32 - 1])
)
NUMBERS = st.sampled_from([0, 1, 2, 12, 13, 1999, 2026, 2**31 - 1])
GALLERIES = st.builds(
    gallery_pb2.Gallery,
    kind=st.sampled_from([0, 1, 2, 3, -1]),
    images=st.lists(IMAGES, max_size=6),
    year=NUMBERS,
    month=NUMBERS,
    **dict.fromkeys(("title", "source", "source_url", "city", "brand", "season_code", "collection"), TEXT),
)


def largest() -> gallery_pb2.Gallery:
    """Return a gallery as large as may be."""
    found = gallery_pb2.Gallery(kind=gallery_pb2.GALLERY_KIND_RUNWAY, title="秀" * 512, source="wire")
    for number in range(500):
        found.images.add(
            url=f"https://a/{number}/".ljust(2048, "x"), caption="字" * 1000, position=number + 1
        )
    return found


def usual() -> gallery_pb2.Gallery:
    """Return a gallery that is taken."""
    found = gallery_pb2.Gallery(kind=gallery_pb2.GALLERY_KIND_STREET_SNAP, title="秀场", city="København")
    found.images.add(url="https://a/1.jpg")
    return found


MESSAGES = st.builds(
    lambda gallery, request_id: Request(gallery=gallery, request_id=request_id).SerializeToString(),
    st.one_of(GALLERIES, st.sampled_from([usual(), largest()]), st.none()),
    st.one_of(st.just(""), st.just("fuzz"), TEXT, st.just("r" * 129)),
)
PLACES = st.floats(0, 1, exclude_max=True)
PIECES = st.one_of(
    st.binary(max_size=8),
    st.sampled_from([b"\xff" * 10, b"\x0a\xff\xff\xff\xff\x0f", b"\xed\xa0\x80", b"\0", b"\x0a\x00" * 500]),
)


@st.composite
def bytes_of_messages(draw: st.DrawFn) -> bytes:
    """Draw a message as it is sent, or with pieces put in, put over what was there, or left out."""
    raw = bytearray(draw(MESSAGES))
    for place, piece, kind in draw(st.lists(st.tuples(PLACES, PIECES, st.integers(0, 3)), max_size=4)):
        at = int(place * len(raw))
        if kind == 0:
            raw[at:at] = piece
        elif kind == 1:
            raw[at : at + len(piece)] = piece
        elif kind == 2:
            del raw[at : at + len(piece)]
        else:
            del raw[at:]
    return bytes(raw)


def refusal(spider: Spider, raw: bytes, metadata: tuple[tuple[str, str], ...]) -> tuple[object, str] | None:
    """Return code and reason of the refusal, None where the bytes are taken."""
    try:
        assert spider.submit(raw, metadata).job_id
    except grpc.RpcError as error:
        found = error_info(error)
        return found.code, found.reason
    return None


STRANGERS: dict[str, Callable[[Spider, bytes], tuple[tuple[str, str], ...]]] = {
    "UNKNOWN_KEY": lambda spider, raw: spider.sign(raw, key_id="fk_none"),
    "BAD_SIGNATURE": lambda spider, raw: spider.sign(raw, secret="wrong"),
    "CLOCK_SKEW": lambda spider, raw: spider.sign(raw, now=time.time() + 4000),
}
OF_THE_SPIDER = {
    None,
    (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    (grpc.StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED"),  # the id survived, and the gallery did not
}


def test_whatever_is_sent_is_taken_or_refused_with_a_reason_and_the_server_does_not_grow(
    spider: Spider,
) -> None:
    met: set[object] = set()

    @settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(raw=bytes_of_messages(), stranger=st.sampled_from([None, None, None, *STRANGERS]))
    def send(raw: bytes, stranger: str | None) -> None:
        if stranger is None:
            found = refusal(spider, raw, spider.sign(raw))
            assert found in OF_THE_SPIDER
            met.add(found)
        else:
            found = refusal(spider, raw, STRANGERS[stranger](spider, raw))
            assert found == (grpc.StatusCode.UNAUTHENTICATED, stranger)

    for _ in range(20):  # what it keeps of calls at all
        raw = Request(gallery=largest()).SerializeToString()
        assert refusal(spider, raw, spider.sign(raw)) is None
    before = resident_bytes(spider.pid)
    send()
    assert met >= {None, (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT")}
    assert resident_bytes(spider.pid) - before < MOST_GROWTH_BYTES


@pytest.mark.parametrize(
    "raw", [b"", b"\xff", usual().SerializeToString()], ids=["nothing", "no message", "a gallery"]
)
def test_a_call_without_a_signature_is_told_that_and_no_more(spider: Spider, raw: bytes) -> None:
    assert refusal(spider, raw, ()) == (grpc.StatusCode.UNAUTHENTICATED, "UNKNOWN_KEY")
