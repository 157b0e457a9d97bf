"""A folder of its own for every run, and the removal of what killed workers left.

A folder is alive as long as its maker holds the lock on it: the kernel lets go of it when the process ends,
however it ends. A process id would say nothing: it is used again, and means nothing on another machine or in
another container that shares the root.
"""

import fcntl
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
    # a sweep must not come between the making of the folder and its lock
    with _locked(root, fcntl.LOCK_SH):
        folder = Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=root)).resolve()
        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def sweep(root: Path, kind: str) -> int:
    """Remove the folders of workers of a kind that don't live any more; returns how many there were."""
    if not root.is_dir():
        return 0
    # the removal may take long, and no run has to wait for it
    with _locked(root, fcntl.LOCK_EX):
        there = [folder for folder in root.glob(f"{kind}-*") if folder.is_dir() and not _of_older(folder)]
        found = [(folder, _taken(folder)) for folder in there]
    dead = [(folder, handle) for folder, handle in found if handle is not None]
    for folder, handle in dead:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)
    return len(dead)


def _of_older(folder: Path) -> bool:
    """Tell whether a living worker of the release before has it: it locks none; `KIND-PID-…`."""
    named = re.fullmatch(r"[a-z]+-(\d+)-.+", folder.name)
    if named is None:
        return False
    try:
        os.kill(int(named[1]), 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def _taken(folder: Path) -> int | None:
    """Return a handle that holds a folder's lock; None when its maker lives, or it has just gone."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


@contextmanager
def _locked(folder: Path, how: int) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, how)
        yield
    finally:
        os.close(handle)
