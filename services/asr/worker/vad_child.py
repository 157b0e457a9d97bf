"""Voice activity detection in a process of its own (`services.asr.worker.vad_child`), fed by a ChildPool.

The detector and its options are those that the engine on this machine has inside.
"""

from faster_whisper.vad import VadOptions, get_speech_timestamps  # type: ignore[import-untyped]

from libs.common.child_pool import Emit, Json, serve
from services.asr.worker.engine_child import SAMPLE_RATE, samples


def speech(request: Json, _emit: Emit) -> Json:
    """Find where somebody speaks in one span; times are the recording's, in milliseconds."""
    start_ms = request["start_ms"]
    heard = samples(request["wav"], start_ms, request["end_ms"])
    found = get_speech_timestamps(heard, VadOptions(), sampling_rate=SAMPLE_RATE)
    return {"speech": [[start_ms + _ms(item["start"]), start_ms + _ms(item["end"])] for item in found]}


def _ms(sample: int) -> int:
    return sample * 1000 // SAMPLE_RATE


if __name__ == "__main__":
    serve(speech)
