"""Which of several audio tracks is heard, and what is known of each."""

from pathlib import Path

import pytest

from services.asr.media import audio, canonical
from services.asr.media.probe import probe
from tests.integration.media.recordings import onsets, record, remake


async def test_the_default_track_of_several_is_the_one_that_is_heard(tmp_path: Path) -> None:
    first = record(tmp_path / "first.mp4", beeps=(2.0, 5.0))
    second = record(tmp_path / "second.mp4", beeps=(1.0, 8.0))
    both = remake(
        first,
        tmp_path / "both.mkv",
        *("-i", f"file:{second}", "-map", "0:v", "-map", "0:a", "-map", "1:a", "-c", "copy"),
        *("-disposition:a:0", "0", "-disposition:a:1", "default"),
    )
    media = await probe(both)
    assert (len(media.audio_tracks), media.audio_order) == (2, 1)
    made = await canonical.make(both, tmp_path / "c.mp4", media)
    await audio.extract(made.path, tmp_path / "a.wav", duration_ms=made.media.duration_ms)
    assert onsets(tmp_path / "a.wav") == pytest.approx([1.0, 8.0], abs=0.05)


async def test_a_track_that_nothing_here_decodes_is_passed_over(tmp_path: Path) -> None:
    beeps = record(tmp_path / "beeps.mp4", beeps=(1.0, 8.0))
    three = remake(
        beeps,
        tmp_path / "three.mkv",
        *("-map", "0:v", "-map", "0:a", "-map", "0:a", "-map", "0:a", "-c", "copy"),
        *("-c:a:1", "pcm_s16le", "-ac:a:1", "2", "-disposition:a", "0"),
        *("-metadata:s:a:1", "language=chi", "-metadata:s:a:2", "language=und"),
    )
    # the first track's codec, in the container's header
    three.write_bytes(three.read_bytes().replace(b"A_AAC", b"A_XXX", 1))
    media = await probe(three)
    assert [(track.order, track.codec, track.channels, track.language) for track in media.audio_tracks] == [
        (1, "pcm_s16le", 2, "chi"),
        (2, "aac", 1, ""),
    ]
    assert media.heard.order == 1
    made = await canonical.make(three, tmp_path / "c.mp4", media)
    assert made.media.heard.codec == "aac"
    await audio.extract(made.path, tmp_path / "a.wav", duration_ms=made.media.duration_ms)
    assert onsets(tmp_path / "a.wav") == pytest.approx([1.0, 8.0], abs=0.05)
