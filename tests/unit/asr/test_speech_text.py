"""From an engine's segments to utterances and paragraphs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.asr.worker.paragraphs import MAX_CHARACTERS, paragraphs
from services.asr.worker.speech import MAX_UTTERANCE_CHARACTERS, Segment, Span, Utterance, Word
from services.asr.worker.utterances import from_segments

SPAN = Span(1, 600_000, 1_200_000)

texts = st.text(alphabet="利率债券锅，。 abc?", min_size=0, max_size=300)
times = st.integers(min_value=590_000, max_value=1_210_000)


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    start, end = draw(times), draw(times)
    text = draw(texts)
    words: list[Word] = []
    if draw(st.booleans()) and text:
        step = max(1, (end - start) // len(text))
        words = [Word(letter, start + i * step, start + (i + 1) * step) for i, letter in enumerate(text)]
    return Segment(start, end, text, tuple(words))


@settings(max_examples=150, deadline=None)
@given(st.lists(segments(), max_size=12))
def test_utterances_lie_in_their_chunk_in_order_and_none_is_empty_or_too_long(given_: list[Segment]) -> None:
    earliest = SPAN.start_ms
    for utterance in from_segments(given_, SPAN):
        assert earliest <= utterance.start_ms <= utterance.end_ms <= SPAN.end_ms
        assert 0 < len(utterance.text.strip()) <= MAX_UTTERANCE_CHARACTERS
        assert all(utterance.start_ms <= w.start_ms <= w.end_ms <= utterance.end_ms for w in utterance.words)
        earliest = utterance.end_ms


def test_a_segment_whose_end_is_wrong_moves_none_of_those_behind_it() -> None:
    """Some engines let a segment last until the end of what they were given."""
    given = [
        Segment(600_000, 1_200_000, "利率下降"),
        Segment(605_000, 608_500, "债券上涨"),
        Segment(608_000, 611_000, "股票"),
    ]
    for segments_ in (given, given[::-1]):
        made = from_segments(segments_, SPAN)
        assert [(item.start_ms, item.end_ms, item.text) for item in made] == [
            (600_000, 605_000, "利率下降"),
            (605_000, 608_000, "债券上涨"),
            (608_000, 611_000, "股票"),
        ]


def test_no_letter_of_a_long_segment_without_words_is_lost() -> None:
    text = "利率下降债券上涨" * 100
    made = from_segments([Segment(600_000, 700_000, text)], SPAN)
    assert "".join(item.text for item in made) == text
    assert made[0].start_ms == 600_000
    assert made[-1].end_ms == 700_000


def test_what_no_database_takes_is_replaced_in_texts_and_words() -> None:
    text = "利\x00率\ud800下降"
    words = tuple(Word(letter, 600_000 + i * 100, 600_100 + i * 100) for i, letter in enumerate(text))
    for segment in (Segment(600_000, 601_000, text), Segment(600_000, 601_000, text, words)):
        (made,) = from_segments([segment], SPAN)
        assert (made.text, made.raw_text) == ("利\ufffd率\ufffd下降",) * 2
        assert "".join(word.text for word in made.words) in {"", made.raw_text}


def test_mixed_script_is_made_one_and_the_raw_text_is_kept() -> None:
    (made,) = from_segments([Segment(600_000, 601_000, "這個月央行下調了存款利率")], SPAN)
    assert made.text == "这个月央行下调了存款利率"
    assert made.raw_text == "這個月央行下調了存款利率"


def test_an_echo_of_the_prompt_is_dropped_and_speech_that_contains_it_stays() -> None:
    echo, speech = (
        Segment(600_000, 601_000, "财经直播间。"),
        Segment(602_000, 603_000, "欢迎来到财经直播间看债券"),
    )
    made = from_segments([echo, speech], SPAN, prompt="财经 直播间")
    assert [item.text for item in made] == ["欢迎来到财经直播间看债券"]


@pytest.mark.parametrize(
    ("said", "prompt", "kept"),
    [
        ("不粘锅。", "不粘锅 三层钢 央行", True),
        ("央行", "不粘锅，三层钢，央行", True),
        ("不粘锅三层钢", "不粘锅 三层钢 央行", False),
        ("这是一场关于利率和债券的直播", "这是一场关于利率和债券的直播，欢迎", False),
        ("财经直播间", "财经直播间", False),
        ("Balenciaga", "Balenciaga, Loewe", True),
        ("balenciaga loewe", "Balenciaga, Loewe", False),
        ("……", "不粘锅", False),
    ],
)
def test_a_single_name_of_the_prompt_is_speech_and_more_of_it_is_an_echo(
    said: str, prompt: str, kept: bool
) -> None:
    assert bool(from_segments([Segment(600_000, 601_000, said)], SPAN, prompt=prompt)) is kept


def test_a_segment_is_split_at_a_sentence_end_and_at_a_gap() -> None:
    words = (
        Word("利率下降。", 600_000, 601_000),
        Word("债券", 601_000, 601_500),
        Word("上涨", 602_500, 603_000),
    )
    made = from_segments([Segment(600_000, 603_000, "利率下降。债券上涨", words)], SPAN)
    assert [(item.text, item.start_ms) for item in made] == [
        ("利率下降。", 600_000),
        ("债券", 601_000),
        ("上涨", 602_500),
    ]


def test_music_signs_and_lone_punctuation_are_no_speech() -> None:
    assert from_segments([Segment(600_000, 601_000, " ♪♪ "), Segment(601_000, 602_000, "……")], SPAN) == []


spoken = st.lists(
    st.tuples(st.text(alphabet="利率债券锅，。 abc?", min_size=1, max_size=120), st.integers(0, 4000)),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(spoken, st.sets(st.integers(0, 60)))
def test_every_utterance_is_in_exactly_one_paragraph_of_at_most_200_characters(
    spoken_: list[tuple[str, int]], breaks: set[int]
) -> None:
    clock, utterances = 0, []
    for text, gap in spoken_:
        utterances.append(Utterance(clock + gap, clock + gap + 500, text, text))
        clock += gap + 500
    made = paragraphs(utterances, breaks)
    covered = [index for item in made for index in range(item.first, item.first + item.count)]
    assert covered == list(range(len(utterances)))
    for item in made:
        assert 1 <= len(item.text) <= MAX_CHARACTERS
        inside = utterances[item.first : item.first + item.count]
        assert all(utterance.text in item.text for utterance in inside)
        assert (item.start_ms, item.end_ms) == (inside[0].start_ms, inside[-1].end_ms)
    assert {item.first for item in made} >= {index for index in breaks if index < len(utterances)}
