"""What `frontrow materials add` makes of a file's name and of an address."""

import pytest
from click.testing import CliRunner

from cli.commands.materials import is_address, name_of
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
