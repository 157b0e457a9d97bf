"""Transcribe a prepared recording chunk by chunk; what an earlier run kept is not done again."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from services.asr.worker import utterances
from services.asr.worker.engine import Engine
from services.asr.worker.settings import AsrWorkerSettings
from services.asr.worker.speech import Part, Span


async def transcribe(
    wav: Path,
    kept: Mapping[int, Part],
    engine: Engine,
    settings: AsrWorkerSettings,
    *,
    save: Callable[[Part], Awaitable[None]],
    on_part: Callable[[Part], None],
    on_position: Callable[[int, int], None],
) -> list[Part]:
    """Return the parts of the whole recording, in order.

    A kept part is used when its span and its engine are those of today's plan. Each new one is given to
    `save` before the next begins. `on_part` is told of every part, `on_position` (done, total) in
    milliseconds.

    Raises:
        EngineFailed, NoEngine: the engine's.
    """
    plan = await asyncio.to_thread(_plan, wav, settings)
    name = await engine.name()
    total_ms = plan[-1].end_ms if plan else 0
    parts: list[Part] = []
    for span in plan:
        part = kept.get(span.index)
        if part is None or part.span != span or part.engine != name:
            language, segments = await engine.transcribe(wav, span, lambda ms: on_position(ms, total_ms))
            made = utterances.from_segments(segments, span, prompt=settings.initial_prompt)
            part = Part(span, name, language, tuple(made))
            await save(part)
        parts.append(part)
        on_part(part)
        on_position(span.end_ms, total_ms)
    return parts


def _plan(wav: Path, settings: AsrWorkerSettings) -> list[Span]:
    # numpy comes with it, which takes most of a second: a worker must be ready before that
    from services.asr.worker import chunks

    return chunks.plan(
        wav, chunk_seconds=settings.chunk_seconds, cut_window_seconds=settings.cut_window_seconds
    )
