"""An image site for the tests: real HTTP, with every bad habit on demand."""

from __future__ import annotations

import asyncio
import gzip
import io
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from PIL import Image

from tests import http_server

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def picture(seed: int = 0, size: tuple[int, int] = (64, 48), kind: str = "JPEG", **options: object) -> bytes:
    """Return the bytes of a picture that differs by seed."""
    gradient = Image.linear_gradient("L").resize(size)
    bands = [
        gradient.rotate(37 * (seed + i)).point(lambda v, i=i: (v * (i + 1) + seed * 40) % 256)
        for i in range(3)
    ]
    buffer = io.BytesIO()
    Image.merge("RGB", bands).save(buffer, kind, **options)
    return buffer.getvalue()


class Site:
    """Bodies and answers by path, and a count of the requests for each."""

    def __init__(self) -> None:
        self.address = ""
        self.hits: Counter[str] = Counter()
        self.headers: dict[str, dict[str, str]] = {}
        self._answers: dict[str, Answer] = {}

    def url(self, path: str) -> str:
        """Return the address of a path."""
        return f"http://{self.address}/{path}"

    def put(self, path: str, body: bytes, *, status: int = 200, **headers: str) -> str:
        """Serve a body under a path (`Content_Type` and so on for headers) and return its address."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}

        async def answer(request: web.Request) -> web.StreamResponse:
            return web.Response(body=body, status=status, headers=named)

        return self.answer(path, answer)

    def picture(self, path: str, seed: int = 0, size: tuple[int, int] = (64, 48)) -> str:
        """Serve a JPEG and return its address."""
        return self.put(path, picture(seed, size), Content_Type="image/jpeg")

    def answer(self, path: str, answer: Answer) -> str:
        """Let a function answer under a path and return its address."""
        self._answers[path] = answer
        return self.url(path)

    def redirect(self, path: str, location: str, status: int = 302) -> str:
        """Redirect a path and return its address."""
        return self.put(path, b"elsewhere", status=status, Location=location)

    def raw(self, path: str, payload: bytes, *, then: Callable[[], Awaitable[None]] | None = None) -> str:
        """Answer with raw bytes, status line included, and close the connection."""

        async def answer(request: web.Request) -> web.StreamResponse:
            assert request.transport is not None
            request.transport.write(payload)  # type: ignore[attr-defined]
            if then is not None:
                await then()
            request.transport.close()
            await asyncio.sleep(0)
            raise web.HTTPInternalServerError

        return self.answer(path, answer)

    def drip(self, path: str, chunk: bytes, pause_seconds: float) -> str:
        """Answer without end, a chunk each pause."""

        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Type": "image/jpeg"})
            await response.prepare(request)
            while True:
                await response.write(chunk)
                await asyncio.sleep(pause_seconds)

        return self.answer(path, answer)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        path = request.path.lstrip("/")
        self.hits[path] += 1
        self.headers[path] = dict(request.headers)
        answer = self._answers.get(path)
        if answer is None:
            return web.Response(status=404)
        return await answer(request)


def gzipped(body: bytes) -> bytes:
    """Return a body packed as hard as it goes."""
    return gzip.compress(body, 9)


@asynccontextmanager
async def image_site(host: str = "127.0.0.1") -> AsyncIterator[Site]:
    """Run a site on a free port of the loopback."""
    site = Site()
    server = web.Server(site._serve, access_log=None)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    tcp = web.TCPSite(runner, host, 0)
    await tcp.start()
    assert tcp._server is not None
    host, port = tcp._server.sockets[0].getsockname()[:2]  # type: ignore[attr-defined]
    site.address = f"{host}:{port}"
    try:
        yield site
    finally:
        await http_server.stop(runner)
