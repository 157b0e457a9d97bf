"""What holds for every command there is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cli.main import main

ROOT = Path(__file__).resolve().parents[3]
# `up` runs until it is stopped; the others print what goes into a file or a shell.
WITHOUT_JSON = {"up", "export", "completion"}


def commands(command: click.Command = main, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield every command that does something, by its words after `frontrow`."""
    if isinstance(command, click.Group):
        if command.invoke_without_command:
            yield path, command
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, f"{path} {name}".strip())
    else:
        yield path, command


def test_every_command_prints_json_for_programs() -> None:
    without = {
        path for path, command in commands() if "--json" not in {o for p in command.params for o in p.opts}
    }
    assert without <= WITHOUT_JSON


def test_every_command_and_every_option_says_what_it_is_for() -> None:
    for path, command in commands():
        assert command.help, path
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{path} {parameter.opts[0]}"


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """Give the environment of a shell that finds `frontrow`."""
    program = tmp_path / "frontrow"
    program.write_text(
        f"#!{sys.executable}\nfrom cli.main import main\n\nmain(prog_name='frontrow')\n", encoding="utf-8"
    )
    program.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'libs' / 'client'}"}


_TAB = """
set -eu
eval "$(frontrow completion bash)"
complete -p frontrow >&2
COMP_WORDS=(frontrow {words}); COMP_CWORD={last}
_frontrow_completion frontrow
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("qu", {"queues"}),
        ("queues pa", {"pause"}),
        ("top --in", {"--interval"}),
        ("drafts list st", {"street"}),
    ],
)
def test_tab_completes_commands_options_and_values_in_bash(
    shell: dict[str, str], words: str, completed: set[str]
) -> None:
    script = _TAB.format(words=words, last=len(words.split()))
    done = subprocess.run(
        ["bash", "-c", script], env=shell, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, set(done.stdout.split())) == (0, completed), done.stderr


@pytest.mark.parametrize(
    ("shell_name", "asked"),
    [
        ("zsh", {"COMP_WORDS": "frontrow qu", "COMP_CWORD": "1"}),
        ("fish", {"COMP_WORDS": "frontrow qu", "COMP_CWORD": "qu"}),
    ],
)
def test_the_other_shells_ask_the_same_program(shell_name: str, asked: dict[str, str]) -> None:
    runner = CliRunner()
    script = runner.invoke(main, ["completion", shell_name]).output
    assert "_FRONTROW_COMPLETE" in script
    assert f"{shell_name}_complete" in script
    answer = runner.invoke(
        main, [], prog_name="frontrow", env={**asked, "_FRONTROW_COMPLETE": f"{shell_name}_complete"}
    )
    assert "queues" in answer.output
    assert "pause or limit" in answer.output


def test_names_are_completed_without_importing_what_they_run(shell: dict[str, str]) -> None:
    asked = {"_FRONTROW_COMPLETE": "bash_complete", "COMP_WORDS": "frontrow dr", "COMP_CWORD": "1"}
    program = Path(shell["PATH"].split(os.pathsep, 1)[0], "frontrow")
    done = subprocess.run(
        [sys.executable, "-X", "importtime", str(program)],
        env={**shell, **asked}, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert {line.partition(",")[2] for line in done.stdout.split()} == {"drafts", "draft"}
    assert "cli.commands" not in done.stderr
    assert "grpc" not in done.stderr
