"""Any gallery is either refused by field or normalised, whatever is in it."""

from __future__ import annotations

from frontrow.ingest.v1 import gallery_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.common.errors import InvalidArgument
from services.ingest import convert

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
URLS = st.one_of(
    TEXT,
    TEXT.map(lambda text: f"https://a.example/{text}"),
    st.sampled_from(
        ["https://a/1", "https://a/1#x", "HTTP://A/1", "http://[", "http://a:99999/", "http://é/"]
    ),
)
IMAGES = st.lists(
    st.builds(
        lambda url, caption, position: gallery_pb2.GalleryImage(url=url, caption=caption, position=position),
        URLS,
        TEXT,
        st.integers(0, 2**32 - 1),
    ),
    max_size=8,
)


@settings(max_examples=300, deadline=None)
@given(images=IMAGES, source=TEXT, url=st.one_of(TEXT, URLS), title=TEXT)
def test_a_gallery_is_refused_by_field_or_normalised_for_good(
    images: list[gallery_pb2.GalleryImage], source: str, url: str, title: str
) -> None:
    sent = gallery_pb2.Gallery(
        kind=gallery_pb2.GALLERY_KIND_RUNWAY, title=title, source=source, source_url=url, images=images
    )
    before = sent.SerializeToString(deterministic=True)
    try:
        found = convert.normalised(sent)
    except InvalidArgument as refused:
        named = [violation.field for violation in refused.violations]
    else:
        named = []
        _check_normalised(sent, found)
    assert sent.SerializeToString(deterministic=True) == before
    assert all(field.startswith(("gallery.images[", "gallery.source")) for field in named)


def _check_normalised(sent: gallery_pb2.Gallery, found: gallery_pb2.Gallery) -> None:
    assert [image.position for image in found.images] == list(range(1, len(found.images) + 1))
    assert len({image.url for image in found.images}) == len(found.images)
    assert {image.url for image in found.images} == {image.url for image in sent.images}
    assert len(found.source) <= 32
    assert len(found.source_url) <= 512
    assert "#" not in found.source_url
    assert convert.normalised(found) == found
    assert gallery_pb2.Gallery.FromString(found.SerializeToString()) == found
