"""Transcripts made up: utterances, paragraphs and the stream that a worker stores them by."""

from collections.abc import AsyncIterator, Sequence

from frontrow.asr.v1 import live_material_pb2, transcript_pb2
from frontrow.asr.v1 import transcription_service_pb2 as run_pb

from services.asr.stored_names import canonical_key


def utterances(texts: Sequence[str]) -> list[transcript_pb2.Utterance]:
    """Make utterances of a second each."""
    return [
        transcript_pb2.Utterance(
            index=index,
            start_ms=index * 1000,
            end_ms=index * 1000 + 900,
            text=text,
            raw_text=f"raw {text}",
            words=[transcript_pb2.Word(text=text, start_ms=index * 1000, end_ms=index * 1000 + 900)],
        )
        for index, text in enumerate(texts)
    ]


def paragraphs_of(texts: Sequence[str]) -> list[transcript_pb2.Paragraph]:
    """Make a paragraph of each text, an utterance and a second long."""
    return [
        transcript_pb2.Paragraph(
            index=index, text=text, start_ms=index * 1000, end_ms=index * 1000 + 900, first_utterance=index,
            utterance_count=1,
        )
        for index, text in enumerate(texts)
    ]  # fmt: skip


def results(
    material_id: str,
    asr_version: int,
    texts: Sequence[str],
    *,
    count: int | None = None,
    audio_tracks: Sequence[live_material_pb2.AudioTrack] = (),
) -> AsyncIterator[run_pb.CompleteTranscriptionRequest]:
    """Make a result stream; `count` announces another number of utterances than come."""
    end_ms = len(texts) * 1000
    topic = transcript_pb2.Topic(
        title="话题", summary=texts[0], keywords=["词"], end_ms=end_ms, utterance_count=len(texts)
    )
    paragraphs = paragraphs_of(texts)

    result = run_pb.TranscriptionResult(
        material_id=material_id, asr_version=asr_version, duration_ms=end_ms, width=640, height=360,
        canonical_key=canonical_key(material_id, asr_version), engine="e", language="zh",
        summaries_source="local/test", utterance_count=len(texts) if count is None else count,
        paragraph_count=len(texts), topic_count=1, audio_tracks=audio_tracks,
    )  # fmt: skip

    async def stream() -> AsyncIterator[run_pb.CompleteTranscriptionRequest]:
        yield run_pb.CompleteTranscriptionRequest(result=result)
        yield run_pb.CompleteTranscriptionRequest(batch=run_pb.ResultBatch(topics=[topic]))
        for start in range(0, len(texts), 500):
            batch = run_pb.ResultBatch(paragraphs=paragraphs[start : start + 500])
            yield run_pb.CompleteTranscriptionRequest(batch=batch)
        said = utterances(texts)
        for start in range(0, len(texts), 500):
            batch = run_pb.ResultBatch(utterances=said[start : start + 500])
            yield run_pb.CompleteTranscriptionRequest(batch=batch)

    return stream()
