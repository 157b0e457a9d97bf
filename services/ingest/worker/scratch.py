"""A folder of its own for every run, and the removal of what killed workers left."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NAME = re.compile(r"run-(\d+)-.*")


@contextmanager
def run_folder(root: Path) -> Iterator[Path]:
    """Make a new folder under `root`, and remove it with all its content at the end."""
    root.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"run-{os.getpid()}-", dir=root))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(root: Path) -> int:
    """Remove the folders of workers that don't live any more; returns how many there were.

    The root must not be shared between machines, since a process id means nothing on another one.
    """
    removed = 0
    for folder in root.glob("run-*"):
        match = _NAME.fullmatch(folder.name)
        if match is not None and not _alive(int(match[1])):
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
    return removed


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
