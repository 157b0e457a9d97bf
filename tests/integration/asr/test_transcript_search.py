"""Words found in transcripts: as they are written, and as they sound; by an index, however many there are."""

import json
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from frontrow.asr.v1 import live_material_service_pb2 as pb
from sqlalchemy import insert, select, text, update
from sqlalchemy.dialects import postgresql

from libs.common.db import Database
from libs.common.ids import uuid7
from services.asr import transcript_terms
from services.asr.loops.paragraph_indexing import ParagraphIndexing
from services.asr.models import live_materials, transcript_paragraphs, transcripts, uploads
from services.asr.repository_transcript import search
from services.asr.worker.paragraphs import paragraphs
from services.asr.worker.speech import Utterance
from tests.bench.asr.keywords import NOT_SAID, SAID
from tests.integration.asr.bed import Bed
from tests.integration.asr.test_transcripts import transcribed

# what the embedded engine made of samples/speech/zh_live.opus
HEARD_SAMPLE = Path(__file__).with_name("zh_live_heard.json")
WRITTEN, HEARD = pb.TRANSCRIPT_MATCH_WRITTEN, pb.TRANSCRIPT_MATCH_HEARD


async def found(
    bed: Bed, keywords: str, material_id: str
) -> list[tuple[int, int, pb.TranscriptMatch.ValueType]]:
    request = pb.SearchTranscriptsRequest(keywords=keywords, live_material_id=material_id)
    hits = (await bed.materials.SearchTranscripts(request)).hits
    return [(hit.paragraph.index, hit.start_ms, hit.match) for hit in hits]


async def test_a_chinese_word_is_found_where_it_was_heard_and_written_otherwise(bed: Bed) -> None:
    material = await transcribed(bed, ["这款锅是不年锅", "这款锅是不粘锅", "三层复合钢", "不战而胜的锅"])
    assert await found(bed, "不粘锅", material.id) == [(0, 0, HEARD), (1, 1000, WRITTEN)]
    assert await found(bed, "三层 复核", material.id) == [(2, 2000, HEARD)]
    assert await found(bed, "三层 不粘锅", material.id) == []
    assert await found(bed, "复核 三层 | 没有的词", material.id) == [(2, 2000, HEARD)]


async def test_one_character_and_words_that_are_not_all_chinese_are_found_as_written_alone(bed: Bed) -> None:
    material = await transcribed(bed, ["5G 手机", "5G 首级", "郭先生", "PostgreSQL 100%_\\"])
    assert await found(bed, "5g手机", material.id) == []
    assert await found(bed, "手机", material.id) == [(0, 0, WRITTEN), (1, 1000, HEARD)]
    assert await found(bed, "锅", material.id) == []
    assert await found(bed, "postgresql 100%_\\", material.id) == [(3, 3000, WRITTEN)]
    assert await found(bed, "100_", material.id) == []
    assert await found(bed, "stg", material.id) == [(3, 3000, WRITTEN)]


async def test_a_syllable_is_never_found_inside_another_one(bed: Bed) -> None:
    material = await transcribed(bed, ["方案在这里", "西安的朋友", "先生"])
    # fang an, xi an, xian
    assert await found(bed, "翻案", material.id) == []
    assert await found(bed, "先安", material.id) == []
    assert await found(bed, "喜案", material.id) == [(1, 1000, HEARD)]


async def test_materials_are_listed_by_what_is_heard_in_them(bed: Bed) -> None:
    mark = uuid4().hex
    material = await transcribed(bed, [f"{mark} 今天推荐不年锅"])
    await transcribed(bed, [f"{mark} 今天推荐电饭煲"])
    request = pb.ListLiveMaterialsRequest(transcript_keywords=f"{mark} 不粘锅")
    listed = (await bed.materials.ListLiveMaterials(request)).live_materials
    assert [item.id for item in listed] == [material.id]


async def test_paragraphs_of_the_release_before_are_found_once_they_are_indexed(
    bed: Bed, database: Database
) -> None:
    material = await transcribed(bed, ["利率下降", "债券上涨"])
    older = update(transcript_paragraphs).where(transcript_paragraphs.c.material_id == material.id)
    async with database.begin() as session:
        await session.execute(older.values(grams=None, sounds=None))
    assert await found(bed, "利率", material.id) == []
    await ParagraphIndexing(database, interval_seconds=60).step()
    assert await found(bed, "利率", material.id) == [(0, 0, WRITTEN)]
    assert await found(bed, "力率", material.id) == [(0, 0, HEARD)]


def _paragraphs(material_id: UUID, count: int) -> list[dict[str, object]]:
    """Make paragraphs of which one is about a currency."""
    said = [f"{first}{second}今天直播间" for first in "利率下降债券上涨" for second in "学习数学题目睡眠"]
    texts = [said[number % len(said)] for number in range(count)]
    texts[count // 2] = "货币基金的年化"
    terms = {each: transcript_terms.terms_of(each) for each in set(texts)}
    return [
        {
            "material_id": material_id,
            "paragraph": number,
            "start_ms": number,
            "end_ms": number + 1,
            "text": each,
            "first_utterance": number,
            "utterance_count": 1,
            "grams": terms[each].grams,
            "sounds": terms[each].sounds,
        }
        for number, each in enumerate(texts)
    ]


@pytest.fixture(scope="module")
async def many(database: Database) -> Database:
    """Give the database with 6,000 paragraphs."""
    material_id, upload_id = uuid7(), uuid7()
    recording = {"media_key": "k", "size_bytes": 1, "sha1": "a"}
    upload = {"id": upload_id, "file_name": "f", "committed_bytes": 1, **recording}
    material = {"id": material_id, "name": f"{uuid4()}", "upload_id": upload_id, "asr_status": "none"}
    transcript = {"material_id": material_id, "asr_version": 1, "asr_raw": [], "asr_summaries": []}
    rows = _paragraphs(material_id, 6_000)
    async with database.begin() as session:
        await session.execute(insert(uploads).values(upload))
        await session.execute(insert(live_materials).values(material | recording))
        await session.execute(insert(transcripts).values(transcript | {"utterance_count": len(rows)}))
        for start in range(0, len(rows), 2_000):
            await session.execute(insert(transcript_paragraphs), rows[start : start + 2_000])
        # what a vacuum does: new entries wait in a list before they go into the index
        await session.execute(text("SELECT gin_clean_pending_list('asr.transcript_paragraphs_grams')"))
        await session.execute(text("ANALYZE asr.transcript_paragraphs"))
    return database


@pytest.mark.parametrize(("word", "hits"), [("货币", 1), ("火币", 1), ("币", 1), ("没有", 0)])
async def test_a_search_among_many_paragraphs_reads_the_index_and_not_the_table(
    many: Database, word: str, hits: int
) -> None:
    found_by = select(transcript_paragraphs.c.text).where(transcript_terms.condition([[word]]))
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    written = found_by.compile(dialect=dialect, compile_kwargs={"literal_binds": True})
    async with many.begin() as session:
        plan = "\n".join((await session.execute(text(f"EXPLAIN {written}".replace(":", "\\:")))).scalars())
        rows = await search(session, [[word]], only=None, after=None, limit=10)
    assert "transcript_paragraphs_grams" in plan
    assert "Seq Scan" not in plan
    assert len(rows) == hits


async def test_words_of_the_sample_are_found_in_what_the_engine_heard_and_others_are_not(bed: Bed) -> None:
    heard = json.loads(HEARD_SAMPLE.read_text("utf-8"))
    said = [Utterance(line["start_ms"], line["end_ms"], line["text"], line["text"]) for line in heard]
    material = await transcribed(bed, [paragraph.text for paragraph in paragraphs(said, set())])
    right = [word for word in SAID if await found(bed, word, material.id)]
    wrong = [word for word in NOT_SAID if await found(bed, word, material.id)]
    assert (len(right) >= 28, wrong) == (True, []), set(SAID) - set(right)
