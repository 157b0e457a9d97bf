"""A web server that holds a recording and misbehaves where a test wants it to."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from tests import http_server

Answer = Callable[[web.Request, "Site"], Awaitable[web.StreamResponse]]


@dataclass
class Site:
    """What is served, and what was asked: each request's Range header, '' where there was none."""

    content: bytes
    etag: str = '"v1"'
    ranges: list[str] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    """Used up one a request; then the content is served as a good server does."""
    url: str = ""
    closing: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def site(content: bytes, answers: list[Answer] | None = None) -> AsyncIterator[Site]:
    """Serve `content` at `site.url` on the loopback."""
    made = Site(content, answers=list(answers or ()))

    async def handle(request: web.Request) -> web.StreamResponse:
        made.ranges.append(request.headers.get("Range", ""))
        answer = made.answers.pop(0) if made.answers else good
        return await answer(request, made)

    application = web.Application()
    application.router.add_get("/{name:.*}", handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/videos/%E5%BD%95%E6%92%AD.mp4?token=secret"
    try:
        yield made
    finally:
        made.closing.set()
        await http_server.stop(runner)


def part(request: web.Request, made: Site) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of what a good server answers."""
    headers = {"ETag": made.etag} if made.etag else {}
    asked = request.headers.get("Range", "")
    if not asked or request.headers.get("If-Range", made.etag) != made.etag:
        return 200, headers, made.content
    start = int(asked.removeprefix("bytes=").removesuffix("-"))
    size = len(made.content)
    if start >= size:
        return 416, headers | {"Content-Range": f"bytes */{size}"}, b""
    return 206, headers | {"Content-Range": f"bytes {start}-{size - 1}/{size}"}, made.content[start:]


async def good(request: web.Request, made: Site) -> web.StreamResponse:
    """Answer as a good server does."""
    status, headers, body = part(request, made)
    return web.Response(status=status, headers=headers, body=body)


def cut_after(count: int, *, stay: bool = False) -> Answer:
    """Make an answer that breaks off after `count` bytes, or then says nothing more."""

    async def answer(request: web.Request, made: Site) -> web.StreamResponse:
        status, headers, body = part(request, made)
        response = web.StreamResponse(status=status, headers=headers)
        response.content_length = len(body)
        await response.prepare(request)
        await response.write(body[:count])
        if stay:
            await made.closing.wait()
        if request.transport is not None:
            request.transport.close()
        return response

    return answer


def says(status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> Answer:
    """Make an answer of a status."""

    async def answer(request: web.Request, made: Site) -> web.StreamResponse:
        return web.Response(status=status, headers=headers, body=body)

    return answer


def sha1_of(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()
