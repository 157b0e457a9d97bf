"""Keep warm worker processes that answer JSON requests, one at a time each, and can be killed.

The module that runs in the child calls ``serve(handler)``. Protocol: one JSON line in; lines out:
``{"ready": true}`` once, ``{"event": …}`` any number of times, then ``{"result": …}`` or ``{"error": {…}}``.
"""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from libs.common import machine
from libs.common.child import (
    STDERR_TAIL_BYTES,
    ChildCrashed,
    ChildError,
    ChildFailed,
    ChildTimeout,
    command,
    kill,
)

Json = dict[str, Any]
Emit = Callable[[Json], None]
_LINE_BYTES = 256 << 20  # a transcript of a long recording is one line of many MB
_STDERR_LINE_BYTES = 1 << 16


class ChildPool:
    """Run ``python -m module`` in up to ``size`` children; a call that hangs or is cancelled costs its child.

    Children start when first needed and stay. ``memory_bytes`` limits the address space of each.
    """

    def __init__(
        self,
        module: str,
        *,
        size: int,
        memory_bytes: int | None = None,
        ready_timeout_seconds: float = 60.0,
    ) -> None:
        if size < 1:
            raise ValueError("a pool needs at least one child")
        self._module = module
        self._memory_bytes = memory_bytes
        self._ready_timeout_seconds = ready_timeout_seconds
        self._slots = asyncio.Semaphore(size)
        self._idle: list[_Child] = []
        self._closed = False
        self._busy: set[_Child] = set()

    async def call(
        self,
        request: Json,
        *,
        timeout_seconds: float,
        on_event: Callable[[Json], None] | None = None,
    ) -> Json:
        """Send one request to a free child and return its result; ``on_event`` sees what it emits meanwhile.

        The time spent waiting for a free child, or for a new one to be ready, isn't counted.
        Raises ChildFailed (the handler raised), ChildTimeout, ChildCrashed.
        """
        async with self._slots:
            if self._closed:
                raise ChildError(f"the pool of {self._module} is closed")
            child = self._idle.pop() if self._idle else _Child(self._module, self._memory_bytes)
            self._busy.add(child)
            healthy = False
            try:
                await child.ensure_started(self._ready_timeout_seconds)
                async with asyncio.timeout(timeout_seconds):
                    result = await child.ask(request, on_event)
                healthy = True
            except ChildFailed:
                healthy = True
                raise
            except TimeoutError:
                raise ChildTimeout(f"{self._module} took longer than {timeout_seconds:g} s") from None
            finally:
                self._busy.discard(child)
                if healthy and not self._closed:
                    self._idle.append(child)
                else:
                    await child.kill()
        return result

    async def close(self) -> None:
        """Kill all children, busy ones too; later calls are refused."""
        self._closed = True
        children = [*self._idle, *self._busy]
        self._idle.clear()
        await asyncio.gather(*(child.kill() for child in children))


class _Child:
    """One process of a pool."""

    def __init__(self, module: str, memory_bytes: int | None) -> None:
        self._module = module
        self._memory_bytes = memory_bytes
        self._process: asyncio.subprocess.Process | None = None
        self._stderr_reader: asyncio.Task[None] | None = None
        self._stderr = b""

    async def ensure_started(self, ready_timeout_seconds: float) -> None:
        """Start the process unless it runs, and wait till it says that it is ready."""
        if self._process is not None and self._process.returncode is None:
            return
        argv = command([sys.executable, "-m", self._module], memory_bytes=self._memory_bytes)
        environment = {
            # else onnxruntime reports to its maker and keeps a device id in the home folder
            "ORT_DISABLE_TELEMETRY": "1",
            **os.environ,
            # The child must find the same modules as we do, wherever it was started from.
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        self._process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            limit=_LINE_BYTES,
            start_new_session=True,
        )
        self._stderr = b""
        self._stderr_reader = asyncio.create_task(self._keep_stderr(self._process))
        try:
            async with asyncio.timeout(ready_timeout_seconds):
                await self._next_line()
        except TimeoutError:
            raise ChildTimeout(f"{self._module} was not ready within {ready_timeout_seconds:g} s") from None

    async def ask(self, request: Json, on_event: Callable[[Json], None] | None) -> Json:
        """Send one request and read lines until its result."""
        if self._process is None or self._process.stdin is None:
            raise ChildError(f"{self._module} is not started")
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # told apart by the read below
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            await self._process.stdin.drain()
        while True:
            line = await self._next_line()
            if "event" in line:
                if on_event is not None:
                    on_event(line["event"])
            elif "error" in line:
                raise ChildFailed(line["error"]["type"], line["error"]["message"])
            else:
                result: Json = line["result"]
                return result

    async def kill(self) -> None:
        """Kill and reap the process."""
        if self._process is not None:
            await kill(self._process)
        if self._stderr_reader is not None:
            await self._stderr_reader

    async def _next_line(self) -> Json:
        """Read one line of the protocol. Raises ChildCrashed at the end of the stream."""
        if self._process is None or self._process.stdout is None:
            raise ChildError(f"{self._module} is not started")
        line = await self._process.stdout.readline()
        if not line.endswith(b"\n"):
            await kill(self._process)
            returncode = self._process.returncode
            stderr_text = self._stderr.decode("utf-8", errors="replace")
            raise ChildCrashed(
                f"{self._module} ended without an answer (return code {returncode})",
                returncode=returncode,
                stderr_text=stderr_text,
            )
        parsed: Json = json.loads(line)
        return parsed

    async def _keep_stderr(self, process: asyncio.subprocess.Process) -> None:
        """Drain stderr, so that the child never blocks on it, and keep its end for error reports."""
        while process.stderr is not None and (block := await process.stderr.read(_STDERR_LINE_BYTES)):
            self._stderr = (self._stderr + block)[-STDERR_TAIL_BYTES:]


def serve(handler: Callable[[Json, Emit], Json]) -> None:
    """Answer requests on stdin until it ends; for the ``__main__`` of a pool's module.

    ``handler(request, emit)`` returns the result; ``emit`` sends an event at once. What the handler or its
    libraries print goes to stderr, so it can't break the protocol.
    """
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    os.dup2(2, 1)

    def send(line: Json) -> None:
        replies.write(json.dumps(line).encode() + b"\n")
        replies.flush()

    send({"ready": True})
    for line in requests:
        try:
            result = handler(json.loads(line), lambda event: send({"event": event}))
        except Exception as error:  # noqa: BLE001  (the process boundary: the caller gets every error as one)
            send({"error": {"type": type(error).__name__, "message": machine.without_paths(error)}})
        else:
            send({"result": result})
