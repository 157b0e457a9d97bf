"""Transcribe a prepared recording chunk by chunk; what an earlier run kept is not done again."""

import asyncio
import hashlib
import json
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

    A kept part is used when its span, its engine and the settings it was heard with are today's; where nobody
    noted them, as the release before did, span and engine decide. Each new one is given to `save` before the
    next begins. `on_part` is told of every part, `on_position` (done, total) in
    milliseconds.

    Raises:
        EngineFailed, NoEngine: the engine's.
    """
    plan = await asyncio.to_thread(_plan, wav, settings)
    name, made_with = await engine.name(), heard_with(settings)
    total_ms = plan[-1].end_ms if plan else 0
    parts: list[Part] = []
    for span in plan:
        part = kept.get(span.index)
        wanted = (span, name, made_with)
        if part is None or (part.span, part.engine, part.made_with or made_with) != wanted:
            language, segments = await engine.transcribe(wav, span, lambda ms: on_position(ms, total_ms))
            made = utterances.from_segments(segments, span, prompt=settings.initial_prompt)
            part = Part(span, name, language, made_with, tuple(made))
            await save(part)
        parts.append(part)
        on_part(part)
        on_position(span.end_ms, total_ms)
    return parts


def heard_with(settings: AsrWorkerSettings) -> str:
    """Return a digest of what, beside the engine's name, changes what is heard."""
    changes = [settings.language, settings.initial_prompt, settings.beam_size]
    return hashlib.sha256(json.dumps(changes).encode()).hexdigest()[:16]


def _plan(wav: Path, settings: AsrWorkerSettings) -> list[Span]:
    # numpy comes with it, which takes most of a second: a worker must be ready before that
    from services.asr.worker import chunks

    return chunks.plan(
        wav, chunk_seconds=settings.chunk_seconds, cut_window_seconds=settings.cut_window_seconds
    )
