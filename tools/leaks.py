"""Look for secrets in the files of this tree: `python -m tools.leaks` names where they are, never what.

Kingfisher knows the forms of some hundreds of services' keys, and tools/leak_rules.yaml those of ours. It
asks nobody whether a key is alive. What only looks like a secret is listed in tools/leaks.toml, by its hash.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tools.shape import ROOT, tracked_files

_RULES = ROOT / "tools" / "leak_rules.yaml"
_KNOWN = ROOT / "tools" / "leaks.toml"
# Compiled once: it takes some seconds.
_CACHE = ROOT / "var" / "cache" / "kingfisher"
_OPTIONS = ("--no-validate", "--no-update-check", "--git-history=none", "--no-ignore", "--format=json")


class Leak(NamedTuple):
    """Something that looks like a secret; `digest` is the beginning of its SHA-256."""

    path: str
    line: int
    rule: str
    digest: str


def leaks(paths: Sequence[str], root: Path) -> list[Leak]:
    """Return what looks like a secret in the files `paths` below `root`.

    Raises RuntimeError with Kingfisher's words when it can't do its work.
    """
    _CACHE.mkdir(parents=True, exist_ok=True)
    kingfisher = Path(sys.executable).parent / "kingfisher"
    done = subprocess.run(
        [kingfisher, "scan", *_OPTIONS, f"--rules-path={_RULES}", f"--rule-cache-dir={_CACHE}", *paths],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    report: dict[str, Any] = json.loads(done.stdout.partition("\n")[0] or "{}")
    if "findings" not in report:
        raise RuntimeError(f"kingfisher: {done.stderr.strip()}")
    found = ((one["rule"]["id"], one["finding"]) for one in report["findings"])
    return sorted(
        Leak(finding["path"], finding["line"], rule, _digest(finding["snippet"])) for rule, finding in found
    )


def unknown(found: Sequence[Leak], known: Sequence[dict[str, str]]) -> list[str]:
    """Return what isn't known yet, and what is known and isn't there any more."""
    listed = {(one["path"], one["sha256"]): one for one in known}
    there = {(leak.path, leak.digest) for leak in found}
    fresh = [
        f"{leak.path}:{leak.line}: {leak.rule}: take it out, and replace it wherever it is in use; or "
        f'list it in tools/leaks.toml: path = "{leak.path}", sha256 = "{leak.digest}", why = "…"'
        for leak in found
        if (leak.path, leak.digest) not in listed
    ]
    return fresh + [
        f"tools/leaks.toml: {path} has no {digest} any more" for path, digest in listed.keys() - there
    ]


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()[:16]


def main() -> int:
    """Scan what git tracks or would track; return the process's exit code."""
    known = tomllib.loads(_KNOWN.read_text(encoding="utf-8")).get("known", [])
    found = unknown(leaks([str(path) for path in tracked_files()], ROOT), known)
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
