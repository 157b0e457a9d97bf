"""Check the shape of the tree: nothing too long, no vague name, no machine path or registry host.

`python -m tools.shape` prints one line per finding and fails when there is any.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 300
MAX_FUNCTION_LINES = 40
MAX_POSITIONAL = 5
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
    if "migrations" not in path.parts:
        yield from function_findings(path, text)


def function_findings(path: Path, text: str) -> Iterator[str]:
    """Yield what is wrong with the functions of one file: lines beside the docstring, positional parameters.

    Tests take fixtures by name, and an override takes what its base takes.
    """
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = function.body[0]
        docstring = first if ast.get_docstring(function, clean=False) is not None else None
        lines = _lines(function) - (_lines(docstring) if docstring else 0)
        if lines > MAX_FUNCTION_LINES:
            yield f"{path}:{function.lineno}: {function.name} has {lines} lines, at most {MAX_FUNCTION_LINES}"
        if function.name.startswith("test_") or (path.name, function.name) == (
            "sampling.py",
            "should_sample",
        ):
            continue
        positional = [
            given.arg
            for given in (*function.args.posonlyargs, *function.args.args)
            if given.arg not in ("self", "cls")
        ]
        if len(positional) > MAX_POSITIONAL:
            yield f"{path}:{function.lineno}: {function.name} takes {len(positional)} by position, at most 5"


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def main() -> int:
    """Check all files; return the process's exit code."""
    found = [finding for path in tracked_files() for finding in findings(path)]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
