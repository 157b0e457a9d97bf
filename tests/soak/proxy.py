"""A proxy for bytes that can be cut, held up, or both: networks as they are on a bad day."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

_BLOCK = 1 << 16


class Proxy:
    """Stands before one server, on a TCP port or a Unix socket of its own.

    `upstream` is (host, port), or the path of a Unix socket; `path` is where to listen then.
    """

    def __init__(self, upstream: tuple[str, int] | Path, *, path: Path | None = None) -> None:
        self._upstream = upstream
        self._path = path
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.cuts = 0

    async def start(self) -> str:
        """Begin to listen; return `127.0.0.1:port`, or the path."""
        if self._path is not None:
            self._server = await asyncio.start_unix_server(self._accept, self._path)
            return str(self._path)
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Stop listening and end every connection."""
        if self._server is not None:
            self._server.close()
        self.cut()
        for pump in list(self._pumps):
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    def cut(self) -> int:
        """Reset every connection, without a word to either side; return how many there were."""
        count = len(self._open) // 2
        for writer in list(self._open):
            writer.transport.abort()
        self.cuts += count
        return count

    def hold(self) -> None:
        """Let nothing through from now on; connections stay open, as behind a dead router."""
        self._flowing.clear()

    def flow(self) -> None:
        """Let everything through again, with what was held up first."""
        self._flowing.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if isinstance(self._upstream, Path):
                far_reader, far_writer = await asyncio.open_unix_connection(self._upstream)
            else:
                far_reader, far_writer = await asyncio.open_connection(*self._upstream)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, far_writer}
        ways = [(reader, far_writer), (far_reader, writer)]
        pumps = [asyncio.ensure_future(self._pump(*way)) for way in ways]
        self._pumps |= set(pumps)
        try:
            # When one way ends the other is of no use: gRPC and PostgreSQL never half-close.
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in (writer, far_writer):
                end.transport.abort()
                self._open.discard(end)
            for pump in pumps:
                pump.cancel()
            self._pumps -= set(pumps)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while block := await reader.read(_BLOCK):
                await self._flowing.wait()
                writer.write(block)
                await writer.drain()
