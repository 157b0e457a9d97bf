"""A speech service of jobs that answers as a test tells it: by the book, late, wrongly or not at all."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests import http_server


@dataclass
class CloudServer:
    """The service. A scripted answer is a status, `hang`, `close`, raw bytes, or a JSON object."""

    url: str = ""
    submissions: list[Any] = field(default_factory=list)
    """Answers to submissions; used up, then jobs are taken by the book."""
    jobs: list[Any] = field(default_factory=list)
    """Answers to polls."""
    submitted: list[dict[str, Any]] = field(default_factory=list)
    made: dict[str, str] = field(default_factory=dict)
    """The job of each idempotency key."""
    withdrawn: list[str] = field(default_factory=list)
    closing: asyncio.Event = field(default_factory=asyncio.Event)

    async def submit(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        file = form["file"]
        assert isinstance(file, web.FileField)
        with file.file as sound:
            content = sound.read()
        key = request.headers["Idempotency-Key"]
        self.submitted.append(
            {
                "key": key,
                "sound": content,
                "authorization": request.headers.get("Authorization"),
                **{name: form.get(name) for name in ("model", "language", "prompt")},
            }
        )
        if self.submissions:
            return await self._scripted(request, self.submissions.pop(0))
        # an id that must be escaped in the address
        job_id = self.made.setdefault(key, f"job/{len(self.made) + 1}")
        return web.json_response({"id": job_id}, status=202)

    async def poll(self, request: web.Request) -> web.StreamResponse:
        assert request.match_info["id"] in self.made.values()
        return await self._scripted(request, self.jobs.pop(0))

    async def withdraw(self, request: web.Request) -> web.StreamResponse:
        self.withdrawn.append(request.match_info["id"])
        return web.json_response({})

    async def _scripted(self, request: web.Request, answer: Any) -> web.StreamResponse:
        if answer == "hang":
            await self.closing.wait()
        if isinstance(answer, str):
            if request.transport is not None:
                request.transport.close()
            return web.Response(status=500)
        if isinstance(answer, int):
            return web.Response(status=answer)
        if isinstance(answer, bytes):
            return web.Response(body=answer, content_type="application/json")
        return web.json_response(answer)


@asynccontextmanager
async def serving_jobs() -> AsyncIterator[CloudServer]:
    """Serve on a free port of the loopback."""
    server = CloudServer()
    application = web.Application(client_max_size=1 << 26)
    application.router.add_post("/v1/jobs", server.submit)
    application.router.add_get("/v1/jobs/{id}", server.poll)
    application.router.add_delete("/v1/jobs/{id}", server.withdraw)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield server
    finally:
        server.closing.set()
        await http_server.stop(runner)
