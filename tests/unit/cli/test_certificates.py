"""`frontrow certificates` and `frontrow tokens init`: what a deployment needs, made once."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from cli.main import main
from libs.common.access import TokenFile


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_a_folder_is_made_listed_and_left_alone_afterwards(tmp_path: Path) -> None:
    pki = str(tmp_path / "pki")
    first = _run("certificates", "init", pki, "task=task.internal,10.0.0.4", "review", "--json")
    assert first.exit_code == 0, first.output
    assert [(one["name"], one["made_since"] != "") for one in json.loads(first.stdout)] == [
        ("authority", True),
        ("task", True),
        ("review", True),
    ]
    again = json.loads(
        _run("certificates", "init", pki, "task=10.0.0.4,task.internal", "review", "--json").stdout
    )
    assert [one["made_since"] for one in again] == ["", "", ""]
    listed = _run("certificates", "list", pki, "--json")
    assert listed.exit_code == 0
    assert "task.internal" in json.loads(listed.stdout)[2]["hosts"]


def test_what_is_wrong_is_told_in_one_line(tmp_path: Path) -> None:
    refused = _run("certificates", "init", str(tmp_path), "Task")
    assert (refused.exit_code, "'Task'" in refused.output) == (1, True)
    assert "No certificates" in _run("certificates", "list", str(tmp_path / "nowhere")).output
    (tmp_path / "file").write_text("")
    assert "is a file" in _run("certificates", "init", str(tmp_path / "file"), "task").output
    assert "ROLE" in _run("tokens", "init", str(tmp_path), "task", "--file", "x").output
    assert "king" in _run("tokens", "init", str(tmp_path), "task=king", "--file", "x").output


def test_each_process_gets_a_token_once_and_a_lost_file_of_hashes_is_filled_again(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    arguments = ("tokens", "init", str(tmp_path), "task=service", "cli=admin,editor", "--file", str(path))
    assert _run(*arguments).exit_code == 0
    tokens = {name: (tmp_path / name / "token").read_text().strip() for name in ("task", "cli")}
    assert (tmp_path / "task/token").stat().st_mode & 0o777 == 0o600
    entries = path.read_text()
    assert _run(*arguments).exit_code == 0
    assert path.read_text() == entries
    path.unlink()
    assert _run(*arguments).exit_code == 0
    known = TokenFile(path)
    roles = {name: set(found.roles) for name, token in tokens.items() if (found := known.find(token))}
    assert roles == {"task": {"service"}, "cli": {"admin", "editor"}}
    assert {name: (tmp_path / name / "token").read_text().strip() for name in tokens} == tokens


def test_other_roles_take_the_place_of_the_old_ones(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    for role in ("admin", "ops"):
        assert _run("tokens", "init", str(tmp_path), f"cli={role}", "--file", str(path)).exit_code == 0
    found = TokenFile(path).find((tmp_path / "cli/token").read_text().strip())
    assert found is not None
    assert found.roles == {"ops"}
    assert path.read_text().count("[[tokens]]") == 1
