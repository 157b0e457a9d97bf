"""Start child processes that die with their parent, and kill them on timeout or cancellation.

A thread can't be stopped; a process can. Everything that may hang or eat memory (ffmpeg, image decoding,
speech recognition) runs in a child started here, and no child outlives a ``kill -9`` of its parent.

The death signal belongs to the *thread* that forked: start children from a thread that lives as long
as the process (the event loop in the main thread).
"""

import asyncio
import contextlib
import os
import shutil
import signal as signals
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_SHIM = Path(__file__).with_name("launch.py")
_READ_BYTES = 1 << 16
STDERR_TAIL_BYTES = 1 << 16


class ChildError(Exception):
    """Say that a child process did not do its work."""


class ChildTimeout(ChildError):
    """Say that a child ran longer than it may; it has been killed."""


class ChildCrashed(ChildError):
    """Say that a child ended without an answer (a signal, out of memory, an import error)."""

    def __init__(self, message: str, *, returncode: int | None, stderr_text: str = "") -> None:
        super().__init__(message)
        self.returncode = returncode
        self.stderr_text = stderr_text


class ChildFailed(ChildError):
    """Carry an exception that the child's handler raised: its type's name and its message."""

    def __init__(self, type_name: str, message: str) -> None:
        super().__init__(f"{type_name}: {message}")
        self.type_name = type_name
        self.message = message


@dataclass(frozen=True)
class Completed:
    """What a finished program left: its return code, whole stdout, and the end of stderr as text."""

    returncode: int
    stdout: bytes
    stderr_text: str


def command(
    argv: Sequence[str],
    *,
    signal: signals.Signals = signals.SIGKILL,
    memory_bytes: int | None = None,
    user: tuple[int, int] | None = None,
) -> list[str]:
    """Wrap ``argv`` so that the program gets ``signal`` when this process dies, however it dies.

    ``memory_bytes`` limits the address space; ``user`` is (uid, gid) to become, for a parent that is root.
    Must be called by the process that starts the child. Raises FileNotFoundError when the program is missing.
    """
    program = shutil.which(argv[0])
    if program is None:
        raise FileNotFoundError(f"no program {argv[0]!r} on PATH")
    # Absolute, but with links kept: a virtual environment's python must be called by its own name.
    resolved = [str(Path(program).absolute()), *argv[1:]]
    if sys.platform != "linux" and memory_bytes is None and user is None:
        return resolved
    uid, gid = user if user is not None else ("-", "-")
    settings = [str(int(signal)), str(os.getpid()), str(uid), str(gid), str(memory_bytes or "-")]
    return [sys.executable, "-I", "-S", str(_SHIM), *settings, *resolved]


async def run(
    argv: Sequence[str],
    *,
    timeout_seconds: float,
    stdin: bytes | None = None,
    on_stdout_line: Callable[[str], None] | None = None,
    memory_bytes: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Completed:
    """Run a program to its end.

    ``environment`` is added to ours.
    With ``on_stdout_line`` each line of stdout goes there (without its end of line) and is not kept.
    Of stderr the last 64 KiB are kept; bytes that are no UTF-8 are replaced.
    Raises ChildTimeout when it takes longer than ``timeout_seconds``; the child is killed then,
    and also when the caller is cancelled.
    """
    process = await asyncio.create_subprocess_exec(
        *command(argv, memory_bytes=memory_bytes),
        stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=None if environment is None else {**os.environ, **environment},
        start_new_session=True,  # Ctrl-C in a terminal goes to the supervisor alone
    )
    try:
        async with asyncio.timeout(timeout_seconds):
            stdout, stderr, _ = await asyncio.gather(
                _read_stdout(process, on_stdout_line), _read_tail(process.stderr), _feed(process, stdin)
            )
            returncode = await process.wait()
    except TimeoutError:
        raise ChildTimeout(f"{Path(argv[0]).name} took longer than {timeout_seconds:g} s") from None
    finally:
        await kill(process)
    return Completed(returncode, stdout, stderr.decode("utf-8", errors="replace"))


async def kill(process: asyncio.subprocess.Process) -> None:
    """Kill a child with its whole process group, if it still runs, and reap it."""
    if process.returncode is not None:
        return
    # Not process.kill(): it polls, and a child reaped there loses its return code for asyncio.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signals.SIGKILL)
    await asyncio.shield(process.wait())


async def _feed(process: asyncio.subprocess.Process, data: bytes | None) -> None:
    """Write ``data`` to the child's stdin; a child that stops reading is not an error of ours."""
    if data is None or process.stdin is None:
        return
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(data)
        await process.stdin.drain()
    process.stdin.close()


async def _read_stdout(process: asyncio.subprocess.Process, on_line: Callable[[str], None] | None) -> bytes:
    """Read stdout to its end; hand out lines of any length when someone wants lines."""
    if process.stdout is None:
        return b""
    if on_line is None:
        return await process.stdout.read()
    rest = b""
    while block := await process.stdout.read(_READ_BYTES):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            on_line(line.decode("utf-8", errors="replace").rstrip("\r"))
    if rest:
        on_line(rest.decode("utf-8", errors="replace"))
    return b""


async def _read_tail(stream: asyncio.StreamReader | None, limit_bytes: int = STDERR_TAIL_BYTES) -> bytes:
    """Read a stream to its end and keep only its last ``limit_bytes``."""
    tail = b""
    while stream is not None and (block := await stream.read(_READ_BYTES)):
        tail = (tail + block)[-limit_bytes:]
    return tail
