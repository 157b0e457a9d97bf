"""What words and topics are worth: keywords found in what the engine heard, and where topics were split."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from libs.common.keywords import fold
from services.asr.media import ffmpeg
from services.asr.sounds import sounds_like, syllables
from services.asr.worker import utterances
from services.asr.worker.engine import FasterWhisper
from services.asr.worker.settings import AsrWorkerSettings
from services.asr.worker.speech import Span, Utterance
from services.asr.worker.topics import LocalTopics
from tests.bench.asr.keywords import NOT_SAID, SAID
from tests.bench.asr.noise import misheard
from tests.bench.asr.rig import MODELS
from tests.bench.bed import Bed
from tests.bench.processes import ROOT
from tests.bench.report import Figure

SPEECH = ROOT / "samples" / "speech"
LENGTH_MS = 119_600
LEAST_FOUND, MOST_CLEAN, MOST_NOISY = 28, 0.05, 0.15
# Said in the sample where a topic begins.
_BEGINNINGS = ("好，", "接下来我们连线一位朋友，", "最后我们来回答几个观众的问题。")
_SENTENCE_MS = 6_000
_NOISE = "anoisesrc=colour=pink:amplitude=0.05:seed=7"


async def measure(bed: Bed) -> list[Figure]:
    """Recognise the sample as it is and under noise; split clean, misheard and heard text into topics."""
    engine = FasterWhisper(AsrWorkerSettings(model_cache=MODELS, concurrency=1))
    local = LocalTopics()
    try:
        clear = await _heard(engine, bed.folder, noise=False)
        noisy = await _heard(engine, bed.folder, noise=True)
        splits = {
            "clean text": (await _split_text(local, 0.0), MOST_CLEAN),
            "text with 15 % of its characters misheard": (await _split_text(local, 0.15), MOST_NOISY),
            "text with 30 % of its characters misheard": (await _split_text(local, 0.30), MOST_NOISY),
            "what the engine heard": (await _split_speech(local, clear), MOST_NOISY),
            "what the engine heard under noise": (await _split_speech(local, noisy), MOST_NOISY),
        }
    finally:
        await engine.close()
        await local.close()
    figures = [_recall("", clear, at_least=LEAST_FOUND), _recall(" under noise", noisy, at_least=None)]
    return figures + [
        Figure(f"topics of {name}: Pk", f"{value:.3f}", f"≤ {most}", value <= most)
        for name, (value, most) in splits.items()
    ]


def _recall(where: str, heard: Sequence[Utterance], *, at_least: int | None) -> Figure:
    text = "".join(utterance.text for utterance in heard)
    spoken = syllables(text)

    def found(word: str) -> bool:
        return fold(word) in fold(text) or sounds_like(spoken, word)

    right, wrong = sum(map(found, SAID)), sum(map(found, NOT_SAID))
    details = {"missed": [word for word in SAID if not found(word)], "text": text}
    return Figure(
        f"keywords found{where}",
        f"{right}/{len(SAID)}, {wrong}/{len(NOT_SAID)} falsely",
        f"≥ {at_least}/{len(SAID)}, none falsely" if at_least else "",
        right >= at_least and not wrong if at_least else None,
        details=details,
    )


async def _heard(engine: FasterWhisper, folder: Path, *, noise: bool) -> list[Utterance]:
    wav = folder / f"sample-{'noisy' if noise else 'clear'}.wav"
    under = ("-f", "lavfi", "-i", _NOISE, "-filter_complex", "amix=duration=first:normalize=0")
    await ffmpeg.run(
        (
            *ffmpeg.source(SPEECH / "zh_live.opus"), *(under if noise else ()),
            *("-ac", "1", "-ar", "16000", "-c:a", "pcm_s16le", "-f", "wav", ffmpeg.target(wav)),
        ),
        timeout_seconds=60,
    )  # fmt: skip
    span = Span(0, 0, LENGTH_MS)
    _, segments = await engine.transcribe(wav, span, lambda _: None)
    return utterances.from_segments(segments, span)


async def _split_text(local: LocalTopics, share: float) -> float:
    topics: dict[str, list[str]] = json.loads((SPEECH / "zh_topics.json").read_text("utf-8"))
    texts = [sentence for sentences in topics.values() for sentence in sentences]
    labels = [label for label, sentences in enumerate(topics.values()) for _ in sentences]
    said = [
        Utterance(number * _SENTENCE_MS, (number + 1) * _SENTENCE_MS - 200, text, text)
        for number, text in enumerate(await asyncio.to_thread(misheard, texts, share))
    ]
    return pk(labels, await _labels(local, said))


async def _split_speech(local: LocalTopics, heard: Sequence[Utterance]) -> float:
    script = json.loads((SPEECH / "zh_live.json").read_text("utf-8"))
    begins = [int(line["start"] * 1000) for line in script if line["text"] in _BEGINNINGS]
    middles = [(utterance.start_ms + utterance.end_ms) // 2 for utterance in heard]
    labels = [sum(middle >= begin for begin in begins) for middle in middles]
    return pk(labels, await _labels(local, heard))


async def _labels(local: LocalTopics, said: Sequence[Utterance]) -> list[int]:
    topics, _ = await local.topics(said)
    return [number for number, topic in enumerate(topics) for _ in range(topic.count)]


def pk(reference: Sequence[int], found: Sequence[int]) -> float:
    """Return Beeferman's Pk: how often two units half a topic apart are wrongly together or apart."""
    window = max(1, len(reference) // (2 * len(set(reference))))
    pairs = range(len(reference) - window)
    wrong = sum((reference[i] == reference[i + window]) != (found[i] == found[i + window]) for i in pairs)
    return wrong / len(pairs)
