"""The engine alone, in a process of its own: the same sound, chunks and settings, nothing of ours around."""

from __future__ import annotations

import asyncio
import wave
from typing import Any

from tests.bench import child

_WARM_UP_MS = 20_000


async def _bare(arguments: child.Arguments) -> dict[str, Any]:
    spans = [tuple(span) for span in arguments["spans"]]
    # Ours has its imports and its model by then, and they are not counted: here neither.
    model = await asyncio.to_thread(_loaded, arguments["model_dir"])
    await asyncio.to_thread(_recognise, model, arguments, [(0, min(_WARM_UP_MS, spans[0][1]))])
    busy = child.quiet(arguments)
    with child.meter(arguments) as measured:
        characters = await asyncio.to_thread(_recognise, model, arguments, spans)
    used = measured.cores["client"] * measured.seconds
    return {"cpu_seconds": used, "characters": characters, "busy_before": busy, **measured.facts()}


def _loaded(model_dir: str) -> Any:
    import faster_whisper  # type: ignore[import-untyped]

    return faster_whisper.WhisperModel(model_dir, device="cpu", compute_type="int8", cpu_threads=1)


def _recognise(model: Any, arguments: child.Arguments, spans: list[tuple[int, int]]) -> int:
    import ctranslate2  # type: ignore[import-untyped]
    import numpy as np

    with wave.open(arguments["wav"], "rb") as recording:
        samples = np.frombuffer(recording.readframes(recording.getnframes()), dtype="<i2")
    characters = 0
    for start_ms, end_ms in spans:
        ctranslate2.set_random_seed(0)
        chunk = samples[start_ms * 16 : end_ms * 16].astype(np.float32) / 32768.0
        segments, _ = model.transcribe(
            chunk, beam_size=5, word_timestamps=True, condition_on_previous_text=False, vad_filter=True
        )
        characters += sum(len(segment.text) for segment in segments)
    return characters


if __name__ == "__main__":
    child.serve(_bare)
