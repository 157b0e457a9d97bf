"""Turn an engine's segments into utterances: one script, right order, no piece too long."""

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

import opencc

from libs.common.storable import storable
from services.asr.worker.speech import MAX_UTTERANCE_CHARACTERS, Segment, Span, Utterance, Word

_SENTENCE_END = "。！？!?；;…"
_PAUSE_AT = "，,、：:"
_GAP_MS = 500
_LONG_MS = 6_000
_TOO_LONG_MS = 20_000
_LONG_CHARACTERS = 40
_CHINESE = re.compile(r"[\u3400-\u9fff]")
_LONGEST_NAME = 12
_NOT_SPEECH = re.compile(r"[\W_]+")


def from_segments(segments: Iterable[Segment], span: Span, *, prompt: str = "") -> list[Utterance]:
    """Make the utterances of a chunk.

    They lie inside the chunk, follow one another without overlap, and none is empty or longer than 120
    characters. One that goes on into the next ends where that begins: of an engine's times the ends are the
    worse ones. Segments that only repeat the prompt are dropped: engines echo it on unintelligible sound.
    """
    pieces: list[tuple[int, Segment]] = []
    for segment in segments:
        begin = segment.start_ms
        for piece in () if _is_echo(segment.text, prompt) else _pieces(segment):
            # a segment's own pieces keep their order
            begin = max(begin, piece.start_ms)
            # else music signs, lone punctuation
            if _bare(piece.text):
                pieces.append((begin, piece))
    pieces.sort(key=lambda item: item[0])
    made: list[Utterance] = []
    earliest = span.start_ms
    for (begin, piece), following in zip_longest(pieces, pieces[1:]):
        next_begin = following[0] if following else span.end_ms
        latest = min(span.end_ms, next_begin) if next_begin > begin else span.end_ms
        made.append(_placed(piece, earliest, max(latest, earliest)))
        earliest = made[-1].end_ms
    return made


def _is_echo(text: str, prompt: str) -> bool:
    """Tell whether a segment only repeats the prompt, or a good part of it.

    A single name that stands in the prompt is none: it stands there because it is said.
    """
    said, whole = _bare(text), _bare(prompt)
    if not said or said not in whole:
        return False
    names = [_bare(name) for name in _NOT_SPEECH.split(prompt)]
    return said == whole or len(said) > _LONGEST_NAME or not any(said in name for name in names)


def _bare(text: str) -> str:
    return _NOT_SPEECH.sub("", text).casefold()


def _pieces(segment: Segment) -> Iterator[Segment]:
    """Split a segment at sentence ends, gaps and, when it runs long, at commas."""
    if not segment.words:
        yield from _cut_text(segment)
        return
    held: list[Word] = []
    for index, word in enumerate(segment.words):
        held.append(word)
        following = segment.words[index + 1] if index + 1 < len(segment.words) else None
        if following is None or _ends_here(held, following):
            yield from _cut_text(_joined(held))
            held = []


def _ends_here(held: Sequence[Word], following: Word) -> bool:
    last = held[-1].text.rstrip()[-1:]
    gap_ms = following.start_ms - held[-1].end_ms
    if gap_ms >= _GAP_MS or (last and last in _SENTENCE_END):
        return True
    length_ms = held[-1].end_ms - held[0].start_ms
    characters = sum(len(word.text) for word in held)
    if length_ms >= _LONG_MS or characters >= _LONG_CHARACTERS:
        comfortable = (bool(last) and last in _PAUSE_AT) or gap_ms >= _GAP_MS // 3
        return comfortable or length_ms >= _TOO_LONG_MS or characters >= MAX_UTTERANCE_CHARACTERS - 20
    return False


def _joined(words: Sequence[Word]) -> Segment:
    return Segment(words[0].start_ms, words[-1].end_ms, "".join(word.text for word in words), tuple(words))


def _cut_text(segment: Segment) -> Iterator[Segment]:
    """Cut what is still too long (no words, or an endless one) into equal pieces, times in proportion."""
    text = segment.text.strip()
    # converting the script may lengthen a text a little
    limit = MAX_UTTERANCE_CHARACTERS - 20
    if len(text) <= limit:
        yield segment
        return
    count = -(-len(text) // limit)
    size = -(-len(text) // count)
    length_ms = segment.end_ms - segment.start_ms
    for start in range(0, len(text), size):
        end = min(len(text), start + size)
        yield Segment(
            segment.start_ms + length_ms * start // len(text),
            segment.start_ms + length_ms * end // len(text),
            text[start:end],
        )


def _placed(piece: Segment, earliest_ms: int, latest_ms: int) -> Utterance:
    raw = storable(piece.text).strip()
    start_ms = min(max(piece.start_ms, earliest_ms), latest_ms)
    end_ms = min(max(piece.end_ms, start_ms), latest_ms)
    words = []
    for word in piece.words:
        word_start = min(max(word.start_ms, start_ms), end_ms)
        words.append(Word(storable(word.text), word_start, min(max(word.end_ms, word_start), end_ms)))
    return Utterance(start_ms, end_ms, in_one_script(raw)[:MAX_UTTERANCE_CHARACTERS], raw, tuple(words))


def in_one_script(text: str) -> str:
    """Convert traditional characters to simplified ones; engines mix them within one recording."""
    return _simplifier().convert(text) if _CHINESE.search(text) else text


@functools.cache
def _simplifier() -> opencc.OpenCC:
    """Load the dictionaries at the first text; they never change."""
    return opencc.OpenCC("t2s")
