"""Run `frontrow …` in a process of its own, forked from one that has imported the libraries already.

What is of the command line itself is imported in the fork, so that each call starts as fresh as a user's.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests import forked

_SECONDS = 90


def run(
    arguments: Sequence[str], *, folder: Path, environment: dict[str, str], stdin: str | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run the command line in `folder` with exactly this environment. Raises TimeoutExpired after 90 s."""
    with tempfile.TemporaryDirectory() as scratch:
        streams = [Path(scratch, name) for name in ("stdin", "stdout", "stderr")]
        streams[0].write_text(stdin or "", encoding="utf-8")
        process = forked.start(_main, list(arguments), str(folder), environment, scratch)
        process.join(_SECONDS)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(["frontrow", *arguments], _SECONDS)
        out, err = (path.read_text(encoding="utf-8") for path in streams[1:])
        return subprocess.CompletedProcess(["frontrow", *arguments], process.exitcode, out, err)


def _main(arguments: list[str], folder: str, environment: dict[str, str], scratch: str) -> None:
    """Be the command line: its streams, its folder, its environment, its exit status."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    modes = (
        ("stdin", os.O_RDONLY),
        ("stdout", os.O_WRONLY | os.O_CREAT),
        ("stderr", os.O_WRONLY | os.O_CREAT),
    )
    for number, (name, mode) in enumerate(modes):
        opened = os.open(Path(scratch, name), mode, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False, buffering=1)
    from cli.main import main

    try:
        main(arguments, prog_name="frontrow")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
