"""Check the shape of the tree: no file too long, no forbidden name, no machine path or registry host.

`python -m tools.shape` prints one line per finding and fails when there is any.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 300
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "manager", "base", "misc"}
GRPC_IMPORT = re.compile(r"^\s*(?:import|from) grpc\b", re.MULTILINE)
GRPC_ROLES = re.compile(r"(servicer(_\w+)?|peers|mount|__main__)\.py$")
GENERATED = re.compile(r"_pb2(_grpc)?\.pyi?$")
# Spelled in pieces, so that this file does not find itself.
FORBIDDEN_TEXT = re.compile(
    "|".join(
        (r"(?<![\w.])/" + "work/", "pypi" + r"\.org", "pythonhosted" + r"\.org", "npmjs" + r"\.(com|org)")
    )
)


def tracked_files() -> list[Path]:
    """Return every file that git tracks or would track, relative to the root."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [Path(line) for line in listing.splitlines() if (ROOT / line).is_file()]


def findings(path: Path) -> Iterator[str]:
    """Yield what is wrong with one file."""
    try:
        text = (ROOT / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return
    if match := FORBIDDEN_TEXT.search(text):
        line = text.count("\n", 0, match.start()) + 1
        yield f"{path}:{line}: names a machine path or a registry host: {match.group()}"
    if path.suffix != ".py" or GENERATED.search(path.name):
        return
    lines = text.count("\n")
    if lines > MAX_LINES:
        yield f"{path}: {lines} lines, at most {MAX_LINES}: split it by duty"
    if path.parts[0] == "services" and GRPC_IMPORT.search(text) and not GRPC_ROLES.fullmatch(path.name):
        yield f"{path}: imports grpc; calls belong in servicer*, peers and mount"
    if path.stem in VAGUE_NAMES:
        yield f"{path}: a vague name; name the file by its role"


def main() -> int:
    """Check all files; return the process's exit code."""
    found = [finding for path in tracked_files() for finding in findings(path)]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
