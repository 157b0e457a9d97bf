"""Cut a recording into chunks of about ten minutes, in its silences."""

import wave
from pathlib import Path

import numpy as np
import numpy.typing as npt

from services.asr.worker.speech import Span

_FRAME_MS = 20
# A frame is silent when it is this much quieter than the loud frames around it, or all but digital zero.
_QUIET_SHARE = 0.1
_ZERO_LEVEL = 20.0


def plan(wav: Path, *, chunk_seconds: int, cut_window_seconds: int, within: Span | None = None) -> list[Span]:
    """Return the chunks of a 16-bit mono WAV, or of a span of it, in order, without gap or overlap.

    A chunk ends in the middle of the widest silence among its last `cut_window_seconds`. The same file gives
    the same plan, so that parts kept of an earlier run fit. Reads those windows only; memory doesn't grow
    with length.
    """
    window_ms = min(cut_window_seconds, chunk_seconds // 2) * 1000
    with wave.open(str(wav), "rb") as recording:
        start_ms, end_ms = 0, recording.getnframes() * 1000 // recording.getframerate()
        if within is not None:
            start_ms, end_ms = within.start_ms, min(within.end_ms, end_ms)
        spans: list[Span] = []
        # a last chunk shorter than the window is not worth a cut
        while end_ms - start_ms > chunk_seconds * 1000 + window_ms:
            limit_ms = start_ms + chunk_seconds * 1000
            cut_ms = _cut(recording, limit_ms - window_ms, limit_ms)
            spans.append(Span(len(spans), start_ms, cut_ms))
            start_ms = cut_ms
    if end_ms > start_ms:
        spans.append(Span(len(spans), start_ms, end_ms))
    return spans


def _cut(recording: wave.Wave_read, from_ms: int, to_ms: int) -> int:
    rate = recording.getframerate()
    recording.setpos(from_ms * rate // 1000)
    samples = np.frombuffer(recording.readframes((to_ms - from_ms) * rate // 1000), dtype="<i2")
    return from_ms + widest_silence(samples, rate * _FRAME_MS // 1000) * _FRAME_MS


def widest_silence(samples: npt.NDArray[np.int16], frame_samples: int) -> int:
    """Return the frame in the middle of the widest silence; where nothing is silent, the quietest frame."""
    frames = samples[: len(samples) // frame_samples * frame_samples].reshape(-1, frame_samples)
    levels = np.sqrt(np.mean(frames.astype(np.float32) ** 2, axis=1))
    silent = levels <= max(_ZERO_LEVEL, _QUIET_SHARE * float(np.percentile(levels, 90)))
    edges = np.flatnonzero(np.diff(np.concatenate(([0], silent.astype(np.int8), [0]))))
    starts, ends = edges[::2], edges[1::2]
    if len(starts) == 0:
        return int(np.argmin(levels))
    widest = int(np.argmax(ends - starts))
    return int((starts[widest] + ends[widest]) // 2)
