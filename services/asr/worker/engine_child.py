"""faster-whisper in a process of its own (`services.asr.worker.engine_child`), fed by a ChildPool."""

import functools
import wave
from typing import Any

import ctranslate2  # type: ignore[import-untyped]
import faster_whisper  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt

from libs.common.child_pool import Emit, Json, serve
from services.asr.worker.pace import BEGUN, PREPARED

SAMPLE_RATE = 16_000


class _Model(faster_whisper.WhisperModel):  # type: ignore[misc] # it ships no types
    """The engine. What was encoded last is kept: the language and the first window need the same."""

    _encoded: tuple[npt.NDArray[np.float32], Any] | None = None

    def encode(self, features: npt.NDArray[np.float32]) -> Any:
        """Encode a window of features."""
        if self._encoded is None or not np.array_equal(self._encoded[0], features):
            self._encoded = features.copy(), super().encode(features)
        return self._encoded[1]


@functools.lru_cache(maxsize=1)
def _model(model_dir: str, device: str, compute_type: str) -> _Model:
    # a second thread hardly helps: as many recordings at once as there are cores use them better
    return _Model(model_dir, device=device, compute_type=compute_type, cpu_threads=1)


def samples(path: str, start_ms: int, end_ms: int) -> npt.NDArray[np.float32]:
    """Read one span of a 16 kHz mono WAV, as samples between -1 and 1. Raises ValueError for another file."""
    with wave.open(path, "rb") as recording:
        if recording.getframerate() != SAMPLE_RATE or recording.getnchannels() != 1:
            raise ValueError(f"{path} must be 16 kHz mono")
        recording.setpos(min(start_ms * SAMPLE_RATE // 1000, recording.getnframes()))
        data = recording.readframes((end_ms - start_ms) * SAMPLE_RATE // 1000)
    return np.frombuffer(data, dtype="<i2").astype(np.float32) / 32768.0


def transcribe(request: Json, emit: Emit) -> Json:
    """Recognise one span; tells when it begins, when it is prepared, and its position after each segment."""
    start_ms, end_ms = request["start_ms"], request["end_ms"]
    model = _model(request["model_dir"], request["device"], request["compute_type"])
    emit({"position_ms": start_ms, "window": BEGUN})
    audio = samples(request["wav"], start_ms, end_ms)
    # sampling happens only when the temperature is raised for a hard stretch; a fixed seed makes that, and so
    # the resumed transcript of a recording, the same each time
    ctranslate2.set_random_seed(0)
    segments, info = model.transcribe(
        audio,
        language=request["language"] or None,
        beam_size=request["beam_size"],
        initial_prompt=request["initial_prompt"] or None,
        word_timestamps=True,
        condition_on_previous_text=False,
        vad_filter=True,
    )
    emit({"position_ms": start_ms, "window": PREPARED})
    found: list[dict[str, Any]] = []
    windows: dict[int, int] = {}
    for segment in segments:
        window = windows.setdefault(segment.seek, len(windows) + 1)
        words = [
            [word.word, start_ms + round(word.start * 1000), start_ms + round(word.end * 1000)]
            for word in segment.words or ()
        ]
        found.append(
            {
                "start_ms": start_ms + round(segment.start * 1000),
                "end_ms": start_ms + round(segment.end * 1000),
                "text": segment.text,
                "words": words,
            }
        )
        emit({"position_ms": min(end_ms, start_ms + round(segment.end * 1000)), "window": window})
    return {"language": info.language, "segments": found}


if __name__ == "__main__":
    serve(transcribe)
