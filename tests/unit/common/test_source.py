"""How an article's identity is normalised, once for ingest and review."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from libs.common.source import normalise_source, normalise_url, source_violations
from services.review.keys import SourceKey


def test_the_source_is_trimmed_and_lower_cased_and_the_url_loses_its_fragment_alone() -> None:
    assert normalise_source("  Vogue ") == "vogue"
    assert normalise_url(" https://V.com/A?b=1&b=1#look-3 ") == "https://V.com/A?b=1&b=1"


def test_normalising_twice_changes_nothing() -> None:
    for url in (" https://a/b #x", "#only", "https://a/b#x#y"):
        assert normalise_url(normalise_url(url)) == normalise_url(url)


@given(st.text(max_size=20), st.text(st.sampled_from(" #/\u3000\u2028aA"), max_size=20))
def test_what_ingest_checks_is_what_review_inserts(source: str, url: str) -> None:
    key = SourceKey.of(source, url)
    assert (key.source, key.source_url) == (normalise_source(source), normalise_url(url))
    assert SourceKey.of(key.source, key.source_url) == key


def test_what_is_too_long_is_named_under_the_callers_path() -> None:
    assert source_violations("s" * 32, "u" * 512) == []
    found = source_violations("s" * 33, "u" * 513, "gallery.")
    assert [violation.field for violation in found] == ["gallery.source", "gallery.source_url"]
