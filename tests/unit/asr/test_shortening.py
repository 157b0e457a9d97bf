"""Texts brought within a bound say so, and show all of what they are about."""

from itertools import pairwise

import pytest

from services.asr.shortening import sampled, shortened


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("一句。两句。", "一句。两句。"),
        ("一二三四。五六七八九十", "一二三四。"),
        ("one two three four", "one two t…"),
        ("一，" * 10, "一，一，一，一，一…"),
    ],
)
def test_a_text_is_shortened_at_a_sentence_or_says_that_it_goes_on(text: str, short: str) -> None:
    assert shortened(text, 10) == short


def test_a_long_text_is_sampled_from_its_first_to_its_last_word():
    text = "".join(f"{number:05d}," for number in range(3_000))
    shown = sampled(text, 3_000)
    stretches = shown.split(" … ")
    assert 2_900 <= len(shown) <= 3_000
    assert len(stretches) == 6
    assert text.startswith(stretches[0])
    assert text.endswith(stretches[-1])
    places = [text.index(stretch) for stretch in stretches]
    gaps = {after - before for before, after in pairwise(places)}
    assert max(gaps) - min(gaps) <= 1
    assert sampled(text, len(text)) == text
