"""What the worker's steps hand over, as messages of the wire and back."""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import TypeVar

from frontrow.asr.v1 import live_material_pb2, transcript_pb2

from services.asr.media.probe import AudioTrack
from services.asr.worker.speech import Paragraph, Part, Span, Topic, Utterance, Word

T = TypeVar("T")

_BATCH = 100
# As many as the wire takes.
_AUDIO_TRACKS = 64


async def streamed(messages: Iterable[T]) -> AsyncIterator[T]:
    """Yield messages as a stream wants them."""
    for message in messages:
        yield message


def batches(messages: Sequence[T]) -> Iterator[Sequence[T]]:
    """Cut messages into batches well below the limit of one message."""
    for start in range(0, len(messages), _BATCH):
        yield messages[start : start + _BATCH]


def utterances(items: Sequence[Utterance]) -> list[transcript_pb2.Utterance]:
    """Make the messages of utterances."""
    return [
        transcript_pb2.Utterance(
            index=index,
            start_ms=item.start_ms,
            end_ms=item.end_ms,
            text=item.text,
            raw_text="" if item.raw_text == item.text else item.raw_text,
            words=[
                transcript_pb2.Word(text=word.text, start_ms=word.start_ms, end_ms=word.end_ms)
                for word in item.words
            ],
        )
        for index, item in enumerate(items)
    ]


def paragraphs(items: Sequence[Paragraph]) -> list[transcript_pb2.Paragraph]:
    """Make the messages of paragraphs."""
    return [
        transcript_pb2.Paragraph(
            index=index,
            start_ms=item.start_ms,
            end_ms=item.end_ms,
            text=item.text,
            first_utterance=item.first,
            utterance_count=item.count,
        )
        for index, item in enumerate(items)
    ]


def topics(items: Sequence[Topic]) -> list[transcript_pb2.Topic]:
    """Make the messages of topics."""
    return [
        transcript_pb2.Topic(
            index=index,
            title=item.title,
            summary=item.summary,
            keywords=item.keywords,
            start_ms=item.start_ms,
            end_ms=item.end_ms,
            first_utterance=item.first,
            utterance_count=item.count,
        )
        for index, item in enumerate(items)
    ]


def audio_tracks(items: Sequence[AudioTrack], heard: int) -> list[live_material_pb2.AudioTrack]:
    """Make the messages of audio tracks, the one of order `heard` among them however many there are."""
    last = [track for track in items if track.order == heard and track not in items[: _AUDIO_TRACKS - 1]]
    return [
        live_material_pb2.AudioTrack(
            index=track.order,
            codec=track.codec,
            channels=track.channels,
            sample_rate=track.sample_rate,
            language=track.language,
            transcribed=track.order == heard,
        )
        for track in [*items[: _AUDIO_TRACKS - len(last)], *last]
    ]


def part_of(message: transcript_pb2.TranscriptPart) -> Part:
    """Make a part of its message."""
    spoken = tuple(
        Utterance(
            item.start_ms,
            item.end_ms,
            item.text,
            item.raw_text or item.text,
            tuple(Word(word.text, word.start_ms, word.end_ms) for word in item.words),
        )
        for item in message.utterances
    )
    span = Span(message.index, message.start_ms, message.end_ms)
    return Part(span, message.engine, message.language, message.made_with, spoken)
