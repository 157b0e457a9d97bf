"""Transcripts: the stored JSON to messages and back.

Stored utterance: {"s": start_ms, "e": end_ms, "t": text, "r": raw text when it differs, "w": [[text,
start_ms, end_ms], ...] when there are words}. Stored topic: {"title", "summary", "keywords", "start_ms",
"end_ms", "first", "count"}.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from frontrow.asr.v1 import transcript_pb2
from google.protobuf.message import Message
from sqlalchemy import Row

Json = dict[str, Any]
M = TypeVar("M", bound=Message)

# Well below gRPC's 4 MiB: a message of a stream costs little.
BATCH_BYTES = 1 << 19


def utterance_message(index: int, stored: Json, *, skip_words: bool = False) -> transcript_pb2.Utterance:
    """Make an Utterance of its stored form."""
    words = [] if skip_words else stored.get("w", ())
    return transcript_pb2.Utterance(
        index=index,
        start_ms=stored["s"],
        end_ms=stored["e"],
        text=stored["t"],
        raw_text=stored.get("r", ""),
        words=[transcript_pb2.Word(text=word[0], start_ms=word[1], end_ms=word[2]) for word in words],
    )


def utterance_json(message: transcript_pb2.Utterance) -> Json:
    """Make the stored form of an Utterance."""
    stored: Json = {"s": message.start_ms, "e": message.end_ms, "t": message.text}
    if message.raw_text and message.raw_text != message.text:
        stored["r"] = message.raw_text
    if message.words:
        stored["w"] = [[word.text, word.start_ms, word.end_ms] for word in message.words]
    return stored


def topic_message(index: int, stored: Json) -> transcript_pb2.Topic:
    """Make a Topic of its stored form."""
    return transcript_pb2.Topic(
        index=index,
        title=stored["title"],
        summary=stored["summary"],
        keywords=stored["keywords"],
        start_ms=stored["start_ms"],
        end_ms=stored["end_ms"],
        first_utterance=stored["first"],
        utterance_count=stored["count"],
    )


def topic_json(message: transcript_pb2.Topic) -> Json:
    """Make the stored form of a Topic."""
    return {
        "title": message.title,
        "summary": message.summary,
        "keywords": list(message.keywords),
        "start_ms": message.start_ms,
        "end_ms": message.end_ms,
        "first": message.first_utterance,
        "count": message.utterance_count,
    }


def paragraph_message(row: Row[Any]) -> transcript_pb2.Paragraph:
    """Make a Paragraph of a row of transcript_paragraphs."""
    return transcript_pb2.Paragraph(
        index=row.paragraph,
        start_ms=row.start_ms,
        end_ms=row.end_ms,
        text=row.text,
        first_utterance=row.first_utterance,
        utterance_count=row.utterance_count,
    )


def paragraph_values(message: transcript_pb2.Paragraph) -> Json:
    """Make the columns of a paragraph's row, its material aside."""
    return {
        "paragraph": message.index,
        "start_ms": message.start_ms,
        "end_ms": message.end_ms,
        "text": message.text,
        "first_utterance": message.first_utterance,
        "utterance_count": message.utterance_count,
    }


def batches(messages: Iterable[M], limit_bytes: int = BATCH_BYTES) -> Iterator[Sequence[M]]:
    """Cut messages into lists of about `limit_bytes` serialised bytes, in order; no empty list."""
    batch: list[M] = []
    size = 0
    for message in messages:
        length = message.ByteSize()
        if batch and size + length > limit_bytes:
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += length
    if batch:
        yield batch
