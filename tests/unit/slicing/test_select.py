"""Which spans become clips."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.asr.slicing.select import NothingChosen, plan
from services.asr.slicing.selection import Passage, Rules, Said, Selection
from tests.unit.slicing.build import said, selection, topic

RULES = Rules()
EXACT = Rules(lead_ms=0, tail_ms=0, shortest_ms=0)


def spans(chosen: Selection, rules: Rules = RULES) -> list[tuple[int, int]]:
    return [(clip.start_ms, clip.end_ms) for clip in plan(chosen, rules)[0]]


def test_every_topic_becomes_a_clip_and_neighbours_are_not_joined() -> None:
    chosen = selection(said(gap_ms=200), topics=(topic("债券", 0, 3), topic("锅", 3, 6), topic("股票", 6, 8)))
    clips, source = plan(chosen, EXACT)
    assert source == "topics"
    assert [(clip.start_ms, clip.end_ms) for clip in clips] == [
        (0, 12_400),
        (12_600, 25_000),
        (25_200, 33_400),
    ]


@pytest.mark.parametrize(("gap_ms", "clips"), [(500, 1), (501, 2)])
def test_topics_that_a_prompt_chose_half_a_second_apart_are_one_clip_that_has_the_words_of_both(
    gap_ms: int, clips: int
) -> None:
    topics = (
        topic("不粘锅", 0, 3, summary="说锅。", keywords=("锅",)),
        topic("不粘锅的价格", 3, 8, summary="说价格。", keywords=("价格", "锅")),
    )
    chosen = selection(said(gap_ms=gap_ms), topics=topics, prompt="我想看介绍不粘锅的部分")
    planned, _ = plan(chosen, EXACT)
    assert len(planned) == clips
    if clips == 1:
        both = topic("不粘锅的价格", 0, 8, summary="说锅。说价格。", keywords=("价格", "锅"))
        assert planned[0].topic == both
        assert len(planned[0].sentences) == 8


def test_neighbours_that_are_chosen_apart_from_each_other_stay_apart() -> None:
    topics = (topic("股票", 0, 2), topic("不粘锅", 2, 6), topic("股票", 6, 8))
    chosen = selection(said(gap_ms=100), topics=topics, prompt="股票")
    assert [clip.topic for clip in plan(chosen, EXACT)[0]] == [topics[0], topics[2]]


def test_keywords_choose_the_utterances_that_hold_them() -> None:
    clips, source = plan(selection(keywords="玻璃锅盖"), EXACT)
    assert source == "keywords"
    assert [clip.sentences for clip in clips] == [("今天直播间的价格是一百九十九元，还送一个玻璃锅盖。",)]


def test_all_words_of_a_group_must_be_in_one_paragraph() -> None:
    apart = selection(keywords="债券 锅盖 | 股票 风险")
    assert spans(apart, EXACT) == [(33_600, 37_600)]
    together = selection(keywords="债券 锅盖", paragraphs=(Passage("债券……锅盖", 0, 8),))
    assert spans(together, EXACT) == [(2 * 4800, 5 * 4800 + 4000)]


def test_a_word_written_with_other_characters_of_the_same_sound_is_found() -> None:
    misheard = (Said(0, 0, 4000, "长期摘券的波动也会更大"),)
    assert spans(selection(misheard, keywords="债券"), EXACT) == [(0, 4000)]


def test_a_single_character_is_only_found_as_written() -> None:
    with pytest.raises(NothingChosen):
        plan(selection((Said(0, 0, 4000, "下过雨了"),), keywords="锅"), EXACT)


def test_matches_half_a_second_apart_become_one_clip_and_more_do_not() -> None:
    near = (Said(0, 0, 1000, "股票"), Said(1, 1500, 2500, "股票"), Said(2, 3001, 4000, "股票"))
    assert spans(selection(near, keywords="股票"), EXACT) == [(0, 2500), (3001, 4000)]


def test_a_short_match_grows_within_its_paragraph_only() -> None:
    short = tuple(Said(i, i * 1500, i * 1500 + 1000, f"第{i}句" if i != 2 else "股票") for i in range(8))
    passages = (Passage("", 0, 2), Passage("第二段 股票", 2, 5), Passage("", 5, 8))
    clips, _ = plan(selection(short, keywords="股票", paragraphs=passages), Rules(lead_ms=0, tail_ms=0))
    assert [(clip.start_ms, clip.end_ms) for clip in clips] == [(3000, 7000)]


def test_a_match_that_lasts_no_time_is_no_clip_and_no_empty_success() -> None:
    squeezed = (Said(0, 0, 4000, "大家好"), Said(1, 4000, 4000, "股票"), Said(2, 4000, 9000, "再见"))
    with pytest.raises(NothingChosen) as nothing:
        plan(selection(squeezed, keywords="股票"), EXACT)
    assert nothing.value.reason == "NO_MATCH"


def test_no_match_is_an_answer_of_its_own() -> None:
    with pytest.raises(NothingChosen) as nothing:
        plan(selection(keywords="手表"), RULES)
    assert nothing.value.reason == "NO_MATCH"
    with pytest.raises(NothingChosen) as nothing:
        plan(selection(prompt="讲手表的部分", topics=(topic("锅", 3, 6),)), RULES)
    assert nothing.value.reason == "NO_MATCH"


def test_a_prompt_keeps_the_topics_that_speak_of_it() -> None:
    topics = (topic("债券和利率", 0, 3), topic("不粘锅", 3, 6), topic("股票开户", 6, 8))
    clips, source = plan(selection(topics=topics, prompt="我想看介绍不粘锅的部分"), RULES)
    assert source == "prompt"
    assert [clip.topic for clip in clips] == [topics[1]]


def test_keywords_of_operators_alone_choose_nothing_in_particular() -> None:
    assert plan(selection(keywords=" | ,", topics=(topic("锅", 3, 6),)), RULES)[1] == "topics"


def test_without_topics_long_speech_is_cut_at_its_pauses() -> None:
    utterances = tuple(
        Said(i, i * 10_000 + (700 if i >= 13 else 0), i * 10_000 + 9_900, "话") for i in range(40)
    )
    clips, source = plan(selection(utterances, duration_ms=400_000), Rules(longest_piece_ms=180_000))
    assert source == "pauses"
    assert clips[1].start_ms == pytest.approx(130_700, abs=200)
    assert all(clip.end_ms - clip.start_ms <= 181_000 for clip in clips)
    assert sum(len(clip.sentences) for clip in clips) == 40


def test_tails_are_padded_into_silence_but_not_into_other_speech() -> None:
    close = (
        Said(0, 1000, 2000, "甲"),
        Said(1, 2100, 3000, "股票"),
        Said(2, 3150, 4000, "乙"),
        Said(3, 9000, 9500, "股票"),
    )
    assert spans(selection(close, keywords="股票", duration_ms=9600), Rules(shortest_ms=0)) == [
        (2100, 3150),
        (8900, 9600),
    ]


def test_padding_stops_at_the_speech_next_to_the_selection() -> None:
    alone = (Said(5, 1000, 2000, "股票"),)
    assert spans(selection(alone, keywords="股票", before=950, after=2050), Rules(shortest_ms=0)) == [
        (1000, 2050)
    ]


def test_more_clips_than_a_project_holds_are_refused_not_cut_off() -> None:
    many = tuple(Said(i, i * 2000, i * 2000 + 1000, "股票") for i in range(501))
    with pytest.raises(NothingChosen) as nothing:
        plan(selection(many, keywords="股票", duration_ms=2_000_000), Rules(shortest_ms=0))
    assert nothing.value.reason == "TOO_MANY_CLIPS"


@given(
    lengths=st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 9000)), min_size=1, max_size=40),
    words=st.lists(st.sampled_from(["股票", "利率", "话"]), min_size=40, max_size=40),
    rest=st.integers(0, 500),
)
def test_clips_never_cut_an_utterance_overlap_or_pass_the_end(
    lengths: list[tuple[int, int]], words: list[str], rest: int
) -> None:
    utterances, at = [], 0
    for i, (gap, length) in enumerate(lengths):
        utterances.append(Said(i, at + gap, at + gap + length, words[i]))
        at += gap + length
    chosen = selection(tuple(utterances), keywords="股票 | 利率", duration_ms=at + rest)
    try:
        clips, _ = plan(chosen, RULES)
    except NothingChosen:
        assert not {"股票", "利率"} & set(words[: len(lengths)])
        return
    for clip in clips:
        assert 0 <= clip.start_ms < clip.end_ms <= chosen.duration_ms
        for spoken in utterances:
            outside = spoken.end_ms <= clip.start_ms or spoken.start_ms >= clip.end_ms
            assert outside or (clip.start_ms <= spoken.start_ms and spoken.end_ms <= clip.end_ms)
    assert all(a.end_ms <= b.start_ms for a, b in itertools.pairwise(clips))
