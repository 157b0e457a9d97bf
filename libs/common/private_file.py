"""Write what nobody but its owner may read."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write(path: Path, text: str) -> None:
    """Write a file anew, for its owner alone; it stays as it was when that fails. Raises OSError.

    A file that is there keeps its owner, as far as we may say so: what an administrator changes is still
    read by the process that it belongs to.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.touch(mode=0o600)
        draft.write_text(text, encoding="utf-8")
        with contextlib.suppress(FileNotFoundError, PermissionError):
            there = path.stat()
            os.chown(draft, there.st_uid, there.st_gid)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep whoever else does so out of a folder for a `with` block: between reading a file and writing it.

    Raises OSError when the folder isn't there.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
