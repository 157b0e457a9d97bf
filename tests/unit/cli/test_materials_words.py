"""What `frontrow materials add` makes of names and addresses, and `slice` of a prompt."""

import pytest
from click.testing import CliRunner
from frontrow.asr.v1 import live_material_pb2, video_project_pb2

from cli.commands.materials import is_address, material_words, name_of
from cli.commands.slice import prompt_note
from cli.main import main


@pytest.mark.parametrize(
    ("recording", "name", "address"),
    [
        ("/srv/live 口红.mp4", "live 口红", False),
        ("httpd.mp4", "httpd", False),
        ("https://cdn.test/a/live%20%E5%8F%A3.flv?token=x#t=1", "live 口", True),
        ("HTTP://cdn.test/live", "live", True),
    ],
)
def test_a_recording_is_named_after_its_file_wherever_it_is(recording: str, name: str, address: bool) -> None:
    assert (name_of(recording), is_address(recording)) == (name, address)


def test_a_file_that_is_not_there_is_named() -> None:
    done = CliRunner().invoke(main, ["materials", "add", "no-such.mp4"], prog_name="frontrow")
    assert done.exit_code == 2
    assert "no-such.mp4" in done.output


def test_a_prompt_whose_words_alone_chose_says_what_to_configure_for_its_meaning() -> None:
    note = prompt_note(video_project_pb2.VideoProject(clips_source="prompt"))
    assert {"FRONTROW_LLM_BASE_URL=https://host/v1", "FRONTROW_LLM_MODEL=NAME"} <= set(
        note.replace(",", "").split()
    )
    for source in ("llm/qwen", "topics", "keywords", ""):
        assert prompt_note(video_project_pb2.VideoProject(clips_source=source)) == ""


def test_a_recording_is_shown_with_each_of_its_audio_tracks() -> None:
    tracks = [
        live_material_pb2.AudioTrack(index=0, codec="ac3", channels=6, sample_rate=48_000, language="eng"),
        live_material_pb2.AudioTrack(index=2, codec="aac", channels=1, sample_rate=44_100, transcribed=True),
    ]
    material = live_material_pb2.LiveMaterial(
        name="spring [sale]", asr_status=live_material_pb2.ASR_STATUS_COMPLETED, asr_progress=100,
        file_name="live.mkv", size_bytes=2_000_000, sha1="ab" * 20, duration_ms=3_723_000, width=1280,
        height=720, audio_tracks=tracks,
    )  # fmt: skip
    assert material_words(material).splitlines() == [
        "spring [sale]",
        "  transcription completed, 100 %",
        "  live.mkv",
        f"  2.0 MB, SHA-1 {'ab' * 20}",
        "  1:02:03, 1280×720",
        "  sound 1: ac3, 6 channels, 48000 Hz, eng",
        "  sound 3: aac, 1 channel, 44100 Hz, transcribed",
    ]


def test_of_a_recording_that_no_run_has_seen_only_what_is_known_is_shown() -> None:
    material = live_material_pb2.LiveMaterial(
        name="live", asr_status=live_material_pb2.ASR_STATUS_FAILED, asr_error_reason="NO_AUDIO_TRACK",
        asr_error="no audio track", media_url="https://cdn.example/live.flv",
    )  # fmt: skip
    assert material_words(material).splitlines() == [
        "live",
        "  transcription failed, 0 %",
        "  NO_AUDIO_TRACK: no audio track",
        "  https://cdn.example/live.flv",
    ]
