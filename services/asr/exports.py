"""Write a transcript as a file: pure functions from stored JSON to text."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

# Players ignore a cue that ends when it begins.
_SHORTEST_CUE_MS = 100


@dataclass(frozen=True, slots=True)
class Transcript:
    """A stored transcript: utterances and topics as in `convert_transcript`, paragraphs as columns."""

    name: str
    language: str
    engine: str
    summaries_source: str
    utterances: Sequence[Json]
    paragraphs: Sequence[Json]
    topics: Sequence[Json]


@dataclass(frozen=True, slots=True)
class Format:
    """A file format: how it is named, and what writes it, piece by piece."""

    suffix: str
    content_type: str
    write: Callable[[Transcript], Iterator[str]]


def srt(transcript: Transcript) -> Iterator[str]:
    """Write SubRip: numbered cues, commas before the milliseconds."""
    for number, utterance in enumerate(transcript.utterances, 1):
        start, end = _cue(utterance, ",")
        yield f"{number}\n{start} --> {end}\n{_one_line(utterance['t'])}\n\n"


def vtt(transcript: Transcript) -> Iterator[str]:
    """Write WebVTT; what would be markup in a cue is escaped."""
    yield "WEBVTT\n\n"
    for utterance in transcript.utterances:
        start, end = _cue(utterance, ".")
        text = _one_line(utterance["t"]).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        yield f"{start} --> {end}\n{text}\n\n"


def txt(transcript: Transcript) -> Iterator[str]:
    """Write plain text: each topic's title and summary, then its paragraphs with their times."""
    topics = {topic["first"]: topic for topic in transcript.topics}
    yield f"{transcript.name}\n\n"
    for paragraph in transcript.paragraphs:
        topic = topics.get(paragraph["first_utterance"])
        if topic is not None:
            yield f"## {topic['title']}\n{topic['summary']}\n\n"
        yield f"[{clock(paragraph['start_ms'], '.')[:8]}] {paragraph['text']}\n\n"


def as_json(transcript: Transcript) -> Iterator[str]:
    """Write everything as one JSON object, in pieces of bounded size."""
    head = {
        "name": transcript.name,
        "language": transcript.language,
        "engine": transcript.engine,
        "summaries_source": transcript.summaries_source,
    }
    yield json.dumps(head, ensure_ascii=False)[:-1]
    yield from _json_list("topics", transcript.topics)
    yield from _json_list("paragraphs", transcript.paragraphs)
    yield from _json_list("utterances", [_named(item) for item in transcript.utterances])
    yield "}\n"


FORMATS = {
    "srt": Format("srt", "application/x-subrip; charset=utf-8", srt),
    "vtt": Format("vtt", "text/vtt; charset=utf-8", vtt),
    "txt": Format("txt", "text/plain; charset=utf-8", txt),
    "json": Format("json", "application/json", as_json),
}


def clock(milliseconds: int, point: str) -> str:
    """Write a time as hours, minutes, seconds and milliseconds: `01:02:03.456`."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{point}{rest:03d}"


def _cue(utterance: Json, point: str) -> tuple[str, str]:
    end_ms = max(utterance["e"], utterance["s"] + _SHORTEST_CUE_MS)
    return clock(utterance["s"], point), clock(end_ms, point)


def _one_line(text: str) -> str:
    # an empty line would end the cue, and an arrow would begin another one
    return " ".join(text.split()).replace("-->", "→")


def _named(stored: Json) -> Json:
    words = [{"text": word[0], "start_ms": word[1], "end_ms": word[2]} for word in stored.get("w", ())]
    raw = stored.get("r", stored["t"])
    return {
        "start_ms": stored["s"], "end_ms": stored["e"], "text": stored["t"], "raw_text": raw, "words": words
    }  # fmt: skip


def _json_list(name: str, items: Sequence[Json]) -> Iterator[str]:
    yield f', "{name}": ['
    for index, item in enumerate(items):
        yield (", " if index else "") + json.dumps(item, ensure_ascii=False)
    yield "]"
