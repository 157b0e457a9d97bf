"""What the worker tells of a recording's audio tracks."""

from services.asr.media.probe import AudioTrack
from services.asr.worker.messages import audio_tracks


def tracks(count: int) -> list[AudioTrack]:
    return [AudioTrack(order, "aac", 48_000, 2, "zho", default=False) for order in range(count)]


def test_each_track_is_told_and_which_one_is_transcribed() -> None:
    told = audio_tracks(tracks(3), 1)
    assert [(track.index, track.transcribed) for track in told] == [(0, False), (1, True), (2, False)]
    assert (told[0].codec, told[0].channels, told[0].sample_rate, told[0].language) == (
        "aac",
        2,
        48_000,
        "zho",
    )


def test_of_more_tracks_than_the_wire_takes_the_transcribed_one_is_told() -> None:
    for heard in (0, 62, 63, 64, 99):
        told = audio_tracks(tracks(100), heard)
        assert [track.index for track in told if track.transcribed] == [heard]
        assert [track.index for track in told] == sorted({*range(63), max(63, heard)})
