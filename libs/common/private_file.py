"""Write what nobody but its owner may read."""

import os
from pathlib import Path


def write(path: Path, text: str) -> None:
    """Write a file anew, for its owner alone; it stays as it was when that fails. Raises OSError."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.touch(mode=0o600)
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
