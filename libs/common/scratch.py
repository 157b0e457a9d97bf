"""A folder of its own for every run, and the removal of what killed workers left."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def run_folder(root: Path, kind: str) -> Iterator[Path]:
    """Make a new folder under `root`, and remove it with all its content at the end.

    `kind` names the worker, so that workers of several kinds may share the root.
    """
    root.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{kind}-{os.getpid()}-", dir=root)).resolve()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(root: Path, kind: str) -> int:
    """Remove the folders of workers of a kind that don't live any more; returns how many there were.

    The root must not be shared between machines, since a process id means nothing on another one.
    """
    removed = 0
    name = re.compile(rf"{re.escape(kind)}-(\d+)-.*")
    for folder in root.glob(f"{kind}-*"):
        match = name.fullmatch(folder.name)
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
