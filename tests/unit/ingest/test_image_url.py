"""Which image addresses are taken, and how a gallery is normalised."""

from __future__ import annotations

import pytest
from frontrow.ingest.v1 import gallery_pb2

from libs.common.errors import InvalidArgument
from services.ingest import convert
from services.ingest.image_url import image_url_problem


def gallery(*urls: str, **fields: object) -> gallery_pb2.Gallery:
    images = [gallery_pb2.GalleryImage(url=url, caption=str(i)) for i, url in enumerate(urls)]
    return gallery_pb2.Gallery(kind=gallery_pb2.GALLERY_KIND_RUNWAY, images=images, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url",
    [
        "data:image/png;base64,AAAA",
        "ftp://a/b.jpg",
        "file:///etc/passwd",
        "//a/b.jpg",
        "http://",
        "http://a b/c",
        "http://[::1",
        "http://a:notaport/b",
        "javascript:alert(1)",
        "http://a/\u2028b",
    ],
)
def test_an_address_that_cannot_be_fetched_is_refused_by_field(url: str) -> None:
    assert image_url_problem(url) is not None
    with pytest.raises(InvalidArgument) as refused:
        convert.normalised(gallery("https://a/ok.jpg", url))
    assert [v.field for v in refused.value.violations] == ["gallery.images[1].url"]


@pytest.mark.parametrize("url", ["https://a/b.jpg", "HTTP://A/b?c=d%20e", "http://127.0.0.1:80/ü.png"])
def test_an_http_address_is_taken_as_it_is(url: str) -> None:
    assert image_url_problem(url) is None


def test_over_long_sources_are_refused_and_never_cut() -> None:
    with pytest.raises(InvalidArgument) as refused:
        convert.normalised(gallery("https://a/b", source="v" * 33, source_url="https://a/" + "b" * 503))
    assert [v.field for v in refused.value.violations] == ["gallery.source", "gallery.source_url"]
    padded = gallery(
        "https://a/b", source=" " * 40 + "v" * 32, source_url="https://a/" + "b" * 502 + "#" + "c" * 99
    )
    assert convert.normalised(padded).source == "v" * 32


def test_the_same_address_twice_is_one_image_and_positions_count_from_one() -> None:
    sent = gallery("https://a/1", "https://a/2", "https://a/1", "https://a/3")
    sent.images[3].position, sent.images[1].position = 1, 2
    found = [(i.url, i.position, i.caption) for i in convert.normalised(sent).images]
    assert found == [("https://a/1", 1, "0"), ("https://a/3", 2, "3"), ("https://a/2", 3, "1")]
