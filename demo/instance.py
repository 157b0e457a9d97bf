"""The real process under demonstration: `python -m services` with a data folder of its own."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import grpc

from cli.connection import Connection
from demo.report import Deviation
from libs.common.child import command
from libs.common.client import connect

ROOT = Path(__file__).resolve().parent.parent
_READY_SECONDS = 180.0  # a busy machine; a quiet one needs a few
_STOP_SECONDS = 30.0


class Instance:
    """Start it, call it, stop it. It dies with us, however we die. `settings` go beside its own."""

    def __init__(self, data_dir: Path, log_file: Path, **settings: str) -> None:
        self.connection = Connection(data_dir)
        self._data_dir = data_dir
        self._log_file = log_file
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def start(self) -> None:
        """Start it and wait for its ready line. Raises Deviation with the end of its log."""
        environment = {
            **os.environ,
            "FRONTROW_DATA_DIR": str(self._data_dir),
            "FRONTROW_LOG_FILE": str(self._log_file),
            "FRONTROW_EPHEMERAL_PORTS": "true",
            "FRONTROW_DATABASE_URL": "",
            "FRONTROW_OBJECT_STORE": "",
            # The image site is on this machine, which a production profile refuses to fetch from.
            "FRONTROW_INGEST_WORKER_ALLOW_LOOPBACK": "true",
            # Put together from its wheels once, not at every run.
            "FRONTROW_ASR_WORKER_MODEL_CACHE": str(ROOT / "var" / "models"),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            **self._settings,
        }
        self._process = await asyncio.create_subprocess_exec(
            *command([sys.executable, "-m", "services"], signal=signal.SIGTERM),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
            cwd=ROOT,
            start_new_session=True,  # Ctrl-C comes to the demo, which stops it
        )
        assert self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), _READY_SECONDS)
        except TimeoutError:
            raise Deviation(
                f"`python -m services` was not ready within {_READY_SECONDS:g} s: {self._last_words()}"
            ) from None
        if not line.startswith(b"Frontrow is ready"):
            raise Deviation(f"`python -m services` ended before it was ready: {self._last_words()}")

    def channel(self, context: str) -> grpc.aio.Channel:
        """Return the one channel to a context; calls are made as the demo's editor."""
        if context not in self._channels:
            self._channels[context] = connect(self.connection.address(context), actor="demo-editor")
        return self._channels[context]

    async def stop(self) -> int | None:
        """Stop it as Ctrl-C does and return its exit status; None when it never started."""
        for channel in self._channels.values():
            await channel.close()
        process = self._process
        if process is None:
            return None
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGINT)
        try:
            return await asyncio.wait_for(process.wait(), _STOP_SECONDS)
        except TimeoutError:
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()
            raise Deviation(f"`python -m services` did not stop within {_STOP_SECONDS:g} s") from None

    def _last_words(self) -> str:
        try:
            lines = self._log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return "it wrote no log"
        return f"the end of {self._log_file}:\n" + "\n".join(lines[-15:])
