"""The note that a running instance leaves in its data folder, so that the command line finds it."""

import fcntl
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

STATE_FILE = "frontrow.json"
LOCK_FILE = "frontrow.lock"


class DataFolderInUse(Exception):
    """Say that another instance runs on the same data."""


@dataclass(frozen=True)
class InstanceState:
    """Process id and server addresses (`host:port` by context) of a running instance."""

    pid: int
    addresses: dict[str, str]
    database: str  # "embedded" or "external"
    object_store: str


def write_state(data_dir: Path, state: InstanceState) -> None:
    """Write the note so that a reader sees all of it or the one before."""
    draft = data_dir / f"{STATE_FILE}.{os.getpid()}"
    draft.write_text(json.dumps(asdict(state), indent=2) + "\n", encoding="utf-8")
    draft.replace(data_dir / STATE_FILE)


def read_state(data_dir: Path) -> InstanceState | None:
    """Return the note of an instance that runs; None when none does."""
    try:
        state = InstanceState(**json.loads((data_dir / STATE_FILE).read_text(encoding="utf-8")))
        os.kill(state.pid, 0)
    except (OSError, ValueError, TypeError):
        return None
    return state


def remove_state(data_dir: Path) -> None:
    """Remove the note at a clean stop."""
    (data_dir / STATE_FILE).unlink(missing_ok=True)


def lock(data_dir: Path) -> IO[str]:
    """Take the data folder for this process until it ends, however it ends; keep the returned file open.

    Raises DataFolderInUse.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    held = (data_dir / LOCK_FILE).open("a", encoding="utf-8")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        held.close()
        raise DataFolderInUse(
            f"another Frontrow runs on {data_dir}: stop it, or choose another folder with FRONTROW_DATA_DIR"
        ) from error
    return held
