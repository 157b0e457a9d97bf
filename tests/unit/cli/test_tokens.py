"""The file of tokens that the command line writes is the one that servers read."""

import base64
import json
import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.commands import tokens
from cli.main import main
from libs.common import private_file
from libs.common.access import Principal, TokenFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens.toml"


def _run(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["tokens", arguments[0], "--file", str(path), *arguments[1:]])


@pytest.mark.parametrize("subject", ["ann", 'a "quoted" \\ name', "编辑 😀", "-dash"])
def test_a_token_that_was_added_is_good_at_the_server_and_nowhere_in_the_file(
    path: Path, subject: str
) -> None:
    made = _run(path, "add", "--role", "editor", "--role", "ops", "--days", "3", "--", subject)
    assert made.exit_code == 0, made.output
    (token,) = made.stdout.splitlines()  # and nothing else: it goes into the owner's file
    principal = TokenFile(path).find(token)
    assert principal is not None
    assert (principal.subject, principal.roles) == (subject, {"editor", "ops"})
    assert token not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0


def test_tokens_are_listed_without_their_hashes_and_taken_away_one_at_a_time(path: Path) -> None:
    first, second = (_run(path, "add", "ann", "--role", "editor").stdout.split()[0] for _ in range(2))
    listed = json.loads(_run(path, "list", "--json").stdout)
    assert [(one["subject"], one["roles"], one["expires"]) for one in listed] == [
        ("ann", ["editor"], None)
    ] * 2
    assert all("sha256" not in one for one in listed)
    assert _run(path, "remove", listed[0]["id"]).exit_code == 0
    left = TokenFile(path)
    assert left.find(first) is None
    assert left.find(second) is not None


def test_programs_get_a_token_with_its_id_and_are_told_what_was_taken_away(path: Path) -> None:
    made = json.loads(_run(path, "add", "ann", "--role", "editor", "--json").stdout)
    principal = TokenFile(path).find(made["token"])
    assert principal is not None
    assert (made["subject"], made["roles"], made["expires"]) == ("ann", ["editor"], None)
    gone = json.loads(_run(path, "remove", made["id"], "--json").stdout)
    assert gone == {name: made[name] for name in ("id", "subject", "roles", "expires")}
    assert TokenFile(path).find(made["token"]) is None


def test_changes_at_once_undo_nobody_elses(path: Path) -> None:
    _run(path, "add", "goes", "--role", "editor")

    def add(number: int) -> None:
        made = Principal(subject=f"stays {number}", roles=frozenset({"ops"}), sha256=f"{number:064x}")
        tokens._change(path, lambda known: [*known, made])

    def remove(_: int) -> None:
        tokens._change(path, lambda known: [one for one in known if one.subject != "goes"])

    with ThreadPoolExecutor(8) as pool:
        for change in [pool.submit(remove if one == 20 else add, one) for one in range(40)]:
            change.result()
    subjects = [one["subject"] for one in json.loads(_run(path, "list", "--json").stdout)]
    assert sorted(subjects) == sorted(f"stays {one}" for one in range(40) if one != 20)


def test_a_file_that_an_administrator_changes_still_belongs_to_the_servers_user(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(private_file.os, "chown", lambda _, user, group: given.append((user, group)))
    _run(path, "add", "ann", "--role", "editor")
    assert given == []
    _run(path, "add", "bob", "--role", "editor")
    there = path.stat()
    assert given == [(there.st_uid, there.st_gid)]


def test_what_is_wrong_is_told(path: Path) -> None:
    assert "no token abc" in _run(path, "remove", "abc").output
    assert "control characters" in _run(path, "add", "a\nb", "--role", "editor").output
    assert "editor" in _run(path, "add", "ann", "--role", "king").output
    path.write_text("[[tokens]]\nsubject = 3\n")
    assert "tokens.0.subject" in _run(path, "list").output


def test_a_token_is_as_many_random_bits_as_a_key_so_that_nobody_guesses_it(path: Path) -> None:
    made = {_run(path, "add", f"user-{number}", "--role", "editor").stdout.strip() for number in range(8)}
    assert len(made) == 8
    for token in made:
        random = base64.urlsafe_b64decode(token.removeprefix("ft_") + "=")
        assert len(random) * 8 >= 256
    assert tokens.secrets is secrets, "of the system's own source"
