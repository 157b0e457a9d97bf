"""Whether the two channels of a recording are each other's opposite, as behind a wrongly wired plug.

One hears it on both sides, and nothing at all in their sum, which is what an engine is given.
"""

from __future__ import annotations

from pathlib import Path

import av
from av.audio.resampler import AudioResampler

from services.asr.media.packets import demuxed, opened

_PLACES = (0.1, 0.3, 0.5, 0.7, 0.9)
_SECONDS_AT_EACH = 10
# Of any two microphones in one room it is above zero, or near it.
_OPPOSITE = -0.5


def opposed(canonical: Path) -> bool:
    """Tell whether the channels cancel one another out. Decodes less than a minute at five places."""
    try:
        return _correlation(canonical) < _OPPOSITE
    except av.error.FFmpegError:
        return False


def _correlation(canonical: Path) -> float:
    """Return how much the two channels of a sound are the same, -1 to 1; 1 for any other number of them."""
    with opened(canonical) as container:
        stream = container.streams.audio[0]
        if stream.codec_context.channels != 2:
            return 1.0
        left, right, both = 0.0, 0.0, 0.0
        for place in _PLACES:
            container.seek(int((container.duration or 0) * place))
            resampler = AudioResampler(format="fltp", layout="stereo", rate=16_000)
            heard = 0
            for packet in demuxed(container, stream):
                for frame in (f for decoded in stream.decode(packet) for f in resampler.resample(decoded)):
                    first, second = frame.to_ndarray().astype("float64")
                    left, right = left + float(first @ first), right + float(second @ second)
                    both, heard = both + float(first @ second), heard + frame.samples
                if heard >= _SECONDS_AT_EACH * 16_000:
                    break
        power = (left * right) ** 0.5
        return both / power if power else 1.0
