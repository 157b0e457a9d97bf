"""Selections made for tests."""

from services.asr.slicing.selection import Passage, Said, Selection, Subject

SENTENCES = (
    "大家晚上好，欢迎来到今天的财经直播间。",
    "我们先来聊一聊最近的市场利率和国债收益率。",
    "债券的价格和利率是反向的，利率下降，债券的价格就会上涨。",
    "好，下面我们换一个话题，说一说今天推荐的这款不粘锅。",
    "这款锅是三层复合钢的结构，导热很快，而且非常均匀。",
    "今天直播间的价格是一百九十九元，还送一个玻璃锅盖。",
    "有朋友问，股票账户怎么开通。",
    "股票有风险，投资要谨慎，不要借钱炒股。",
)


def said(count: int = len(SENTENCES), *, length_ms: int = 4000, gap_ms: int = 800) -> tuple[Said, ...]:
    step = length_ms + gap_ms
    return tuple(Said(i, i * step, i * step + length_ms, SENTENCES[i % len(SENTENCES)]) for i in range(count))


def topic(title: str, first: int, end: int, *, summary: str = "", keywords: tuple[str, ...] = ()) -> Subject:
    return Subject(title, summary, keywords, first, end)


def selection(
    utterances: tuple[Said, ...] | None = None,
    *,
    topics: tuple[Subject, ...] = (),
    paragraphs: tuple[Passage, ...] | None = None,
    keywords: str = "",
    prompt: str = "",
    duration_ms: int = 60_000,
    before: int = 0,
    after: int = 0,
) -> Selection:
    spoken = said() if utterances is None else utterances
    written = (
        paragraphs if paragraphs is not None else tuple(Passage(u.text, u.index, u.index + 1) for u in spoken)
    )
    return Selection(spoken, topics, written, duration_ms, prompt, keywords, before, after)
