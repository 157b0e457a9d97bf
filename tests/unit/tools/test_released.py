"""Which release this tree is held to, and that a break of its wire is seen."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tools import breaking
from tools.released import ROOT, ReleaseUnknown, extract, reference


def git(folder: Path, *arguments: str) -> str:
    named = ("-c", "user.name=Ann", "-c", "user.email=ann@frontrow.example", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *named, *arguments], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


def commit(folder: Path, text: str) -> str:
    (folder / "README.md").write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", text)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def history(tmp_path: Path) -> tuple[Path, list[str]]:
    """Give a work tree of three commits, of which pyproject.toml names the first."""
    folder = tmp_path / "tree"
    folder.mkdir()
    git(folder, "init", "--quiet")
    first = commit(folder, "one")
    (folder / "pyproject.toml").write_text(f'[tool.frontrow]\nreleased = "{first}"\n')
    return folder, [first, commit(folder, "two"), commit(folder, "three")]


def test_without_a_tag_it_is_the_commit_that_pyproject_names(history: tuple[Path, list[str]]) -> None:
    folder, commits = history
    assert reference(folder) == commits[0]


def test_a_tag_goes_before_and_a_tagged_commit_is_held_to_the_release_before_it(
    history: tuple[Path, list[str]],
) -> None:
    folder, commits = history
    git(folder, "tag", "v0.1.0", commits[1])
    git(folder, "tag", "nightly", commits[2])
    assert reference(folder) == commits[1]
    commit(folder, "four")
    git(folder, "tag", "--annotate", "--message", "the second", "v0.2.0")
    assert reference(folder) == commits[1]
    commit(folder, "five")
    assert reference(folder) == git(folder, "rev-parse", "v0.2.0^{commit}")


def test_a_shallow_clone_is_refused_with_what_to_do(history: tuple[Path, list[str]], tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", "--depth=1", history[0].as_uri(), "shallow")
    with pytest.raises(ReleaseUnknown, match="git fetch --unshallow --tags"):
        reference(tmp_path / "shallow")
    git(tmp_path, "clone", "--quiet", history[0].as_uri(), "whole")
    assert reference(tmp_path / "whole") == history[1][0]


def test_a_folder_without_history_and_a_commit_that_is_not_there_are_refused(
    history: tuple[Path, list[str]], tmp_path: Path
) -> None:
    with pytest.raises(ReleaseUnknown, match="no git work tree"):
        reference(tmp_path)
    folder, _ = history
    (folder / "pyproject.toml").write_text(f'[tool.frontrow]\nreleased = "{"0" * 40}"\n')
    with pytest.raises(ReleaseUnknown, match="is not in this clone"):
        reference(folder)
    (folder / "pyproject.toml").write_text("")
    with pytest.raises(ReleaseUnknown, match=r"tool\.frontrow\.released"):
        reference(folder)
    with pytest.raises(ReleaseUnknown, match="nowhere"):
        extract("HEAD", tmp_path / "out", ["nowhere"], root=folder)


@pytest.fixture
def protos(tmp_path: Path) -> Path:
    """Give a copy of this tree's protos that may be changed."""
    for name in ("protos", "third_party"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "buf.yaml", tmp_path)
    return tmp_path


def test_the_wire_of_the_release_before_is_kept() -> None:
    assert breaking.main() == 0


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("int32 page_size = ", "int64 page_size = ", "changed type"),
        ("string page_token = ", "string token = ", "page_token"),
        ("rpc ListTasks(", "rpc EnumerateTasks(", "ListTasks"),
    ],
)
def test_what_an_old_caller_would_stumble_over_is_named(protos: Path, old: str, new: str, named: str) -> None:
    changed = protos / "protos/frontrow/task/v1/task_service.proto"
    text = changed.read_text(encoding="utf-8")
    assert old in text
    assert breaking.breaks(ROOT, protos) == []
    changed.write_text(text.replace(old, new), encoding="utf-8")
    assert any(named in line for line in breaking.breaks(ROOT, protos))
