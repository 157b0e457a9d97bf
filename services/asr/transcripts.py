"""Read transcripts for LiveMaterialService: whole, by words, and as a file."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from frontrow.asr.v1 import live_material_service_pb2 as pb
from frontrow.asr.v1 import transcript_pb2
from sqlalchemy import Row

from libs.common import keywords, paging
from libs.common.db import Database
from libs.common.errors import InvalidArgument
from services.asr import convert, exports, repository_material, repository_transcript
from services.asr.convert_transcript import (
    batches,
    paragraph_message,
    paragraph_values,
    topic_message,
    utterance_message,
)
from services.asr.file_names import file_stem

_FORMATS = {
    pb.EXPORT_FORMAT_UNSPECIFIED: exports.FORMATS["txt"],
    pb.EXPORT_FORMAT_TXT: exports.FORMATS["txt"],
    pb.EXPORT_FORMAT_SRT: exports.FORMATS["srt"],
    pb.EXPORT_FORMAT_VTT: exports.FORMATS["vtt"],
    pb.EXPORT_FORMAT_JSON: exports.FORMATS["json"],
}
_CHUNK_BYTES = 1 << 18


class Transcripts:
    """Reads transcripts; each read sees one moment."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def stream(self, request: pb.GetTranscriptRequest) -> AsyncIterator[pb.GetTranscriptResponse]:
        """Yield header, topics, paragraphs and utterances of one transcript."""
        material_id = convert.parse_id(request.live_material_id, "live_material_id")
        _, row, paragraphs = await self._read(material_id, with_utterances=not request.skip_utterances)
        yield pb.GetTranscriptResponse(header=_header(row, len(paragraphs)))
        for topics in batches(topic_message(index, topic) for index, topic in enumerate(row.asr_summaries)):
            yield pb.GetTranscriptResponse(topics=pb.TopicBatch(topics=topics))
        for some in batches(paragraph_message(paragraph) for paragraph in paragraphs):
            yield pb.GetTranscriptResponse(paragraphs=pb.ParagraphBatch(paragraphs=some))
        if request.skip_utterances:
            return
        for utterances in batches(_utterances(row.asr_raw, skip_words=request.skip_words)):
            yield pb.GetTranscriptResponse(utterances=pb.UtteranceBatch(utterances=utterances))

    async def search(self, request: pb.SearchTranscriptsRequest) -> pb.SearchTranscriptsResponse:
        """Find a page of paragraphs.

        Raises:
            InvalidArgument: no word is left in the keywords.
        """
        groups = keywords.parse(request.keywords)
        if not groups:
            raise InvalidArgument.of_field("keywords", "must hold a word, not only separators")
        size = paging.page_size(request.page_size)
        after = paging.decode_token(request.page_token, request, UUID, int)
        only = (
            convert.parse_id(request.live_material_id, "live_material_id")
            if request.live_material_id
            else None
        )
        async with self._database.begin() as session:
            rows = await repository_transcript.search(session, groups, only=only, after=after, limit=size + 1)
        fitting = paging.within_budget(_hit(row) for row in rows[:size])
        response = pb.SearchTranscriptsResponse(hits=fitting)
        if len(fitting) < len(rows):
            last = fitting[-1]
            response.next_page_token = paging.encode_token(
                [UUID(last.live_material_id), last.paragraph.index], request
            )
        return response

    async def export(self, request: pb.ExportTranscriptRequest) -> AsyncIterator[pb.ExportTranscriptResponse]:
        """Yield a file's description, then its bytes."""
        material_id = convert.parse_id(request.live_material_id, "live_material_id")
        name, row, paragraphs = await self._read(material_id, with_utterances=True)
        wanted = _FORMATS[request.format]
        info = pb.ExportInfo(
            file_name=f"{file_stem(name, 'transcript')}.{wanted.suffix}", content_type=wanted.content_type
        )
        yield pb.ExportTranscriptResponse(info=info)
        transcript = exports.Transcript(
            name=name,
            language=row.language,
            engine=row.engine,
            summaries_source=row.summaries_source,
            utterances=row.asr_raw,
            paragraphs=[paragraph_values(paragraph_message(paragraph)) for paragraph in paragraphs],
            topics=row.asr_summaries,
        )
        held = bytearray()
        for piece in wanted.write(transcript):
            held += piece.encode()
            if len(held) >= _CHUNK_BYTES:
                yield pb.ExportTranscriptResponse(chunk=bytes(held))
                held.clear()
        if held:
            yield pb.ExportTranscriptResponse(chunk=bytes(held))

    async def _read(
        self, material_id: UUID, *, with_utterances: bool
    ) -> tuple[str, Row[Any], list[Row[Any]]]:
        async with self._database.begin() as session:
            await repository_transcript.one_snapshot(session)
            material = await repository_material.get(session, material_id)
            row = await repository_transcript.get(session, material_id, with_utterances=with_utterances)
            paragraphs = await repository_transcript.paragraphs(session, material_id)
        return material.name, row, list(paragraphs)


def _header(row: Row[Any], paragraph_count: int) -> pb.TranscriptHeader:
    return pb.TranscriptHeader(
        live_material_id=str(row.material_id),
        asr_version=row.asr_version,
        engine=row.engine,
        language=row.language,
        summaries_source=row.summaries_source,
        utterance_count=row.utterance_count,
        paragraph_count=paragraph_count,
        topic_count=len(row.asr_summaries),
        create_time=convert.timestamp(row.created_at),
    )


def _utterances(stored: list[dict[str, object]], *, skip_words: bool) -> list[transcript_pb2.Utterance]:
    return [utterance_message(index, item, skip_words=skip_words) for index, item in enumerate(stored)]


def _hit(row: Row[Any]) -> pb.TranscriptHit:
    return pb.TranscriptHit(
        live_material_id=str(row.material_id),
        live_material_name=row.name,
        paragraph=paragraph_message(row),
        start_ms=row.start_ms,
        end_ms=row.end_ms,
        match=pb.TRANSCRIPT_MATCH_WRITTEN if row.as_written else pb.TRANSCRIPT_MATCH_HEARD,
    )
