"""What `frontrow materials add` makes of names and addresses, and `slice` of a prompt."""

import pytest
from click.testing import CliRunner
from frontrow.asr.v1 import video_project_pb2

from cli.commands.materials import is_address, name_of
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
