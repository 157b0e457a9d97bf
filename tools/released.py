"""Find the release before this tree and take its files out of the history.

That release's servers and workers run beside this tree's during an upgrade (docs/upgrades.md). It is the
last tag `v…` before the present commit; until there is one, the commit of [tool.frontrow] in pyproject.toml.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


class ReleaseUnknown(RuntimeError):
    """Say why the release before can't be had, and what to do about it."""


def reference(root: Path = ROOT) -> str:
    """Return the commit of the release before the tree at `root`, 40 hex digits.

    Raises:
        ReleaseUnknown: no history, one that is cut short, or a name that it doesn't hold.
    """
    if _git(root, "rev-parse", "--is-inside-work-tree") != "true":
        raise ReleaseUnknown(f"{root} is no git work tree: the release before is in the history, so clone it")
    if _git(root, "rev-parse", "--is-shallow-repository") == "true":
        raise ReleaseUnknown(
            "this clone is shallow, and the release before is in the history: git fetch --unshallow --tags"
        )
    # of the commit before, so that a tagged commit is compared with the release that it follows
    named = _git(root, "describe", "--tags", "--match", "v[0-9]*", "--abbrev=0", "HEAD^") or _configured(root)
    commit = _git(root, "rev-parse", "--verify", "--quiet", f"{named}^{{commit}}")
    if not commit:
        raise ReleaseUnknown(f"the release before, {named}, is not in this clone: git fetch --tags")
    return commit


def extract(commit: str, into: Path, paths: Sequence[str] = (), *, root: Path = ROOT) -> None:
    """Write the files of a commit, or those below `paths` alone, into a folder.

    Raises ReleaseUnknown with git's words when the commit or a path isn't there.
    """
    done = subprocess.run(
        ["git", "archive", "--format=tar", commit, *paths], cwd=root, capture_output=True, check=False
    )
    if done.returncode != 0:
        raise ReleaseUnknown(done.stderr.decode(errors="replace").strip())
    # 3.11.4 has the filter, Debian 12's 3.11.2 doesn't; what git archives of this tree may be trusted
    safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(into, **safely)  # noqa: S202


def _configured(root: Path) -> str:
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    named = settings.get("tool", {}).get("frontrow", {}).get("released", "")
    if not named:
        raise ReleaseUnknown("there is no tag v… yet, and pyproject.toml has no tool.frontrow.released")
    return str(named)


def _git(root: Path, *arguments: str) -> str:
    """Return what git says, empty when it refuses."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
