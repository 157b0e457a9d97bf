"""An outside vendor in small: an OpenAI-compatible chat server with faults on demand."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests import http_server

Json = dict[str, Any]
Answer = Callable[[Json, int], web.Response]


def completion(content: str, *, finish: str = "stop") -> web.Response:
    """Make a chat completion."""
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content}}
    return web.json_response({"choices": [choice]})


def topics(*firsts: int) -> str:
    """Make a right answer with topics at these lines."""
    return json.dumps(
        {
            "topics": [
                {
                    "first": first,
                    "title": f"话题{first}",
                    "summary": f"说到 {first}",
                    "keywords": ["词", "词", ""],
                }
                for first in firsts
            ]
        },
        ensure_ascii=False,
    )


@dataclass
class LlmServer:
    """What the server was asked, and how it answers: one entry a call, the last one for all further calls."""

    answers: list[Answer]
    requests: list[Json] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    base_url: str = ""

    async def handle(self, request: web.Request) -> web.Response:
        """Answer a call."""
        body = await request.json()
        self.requests.append(body)
        self.keys.append(request.headers.get("Authorization", ""))
        number = len(self.requests) - 1
        return self.answers[min(number, len(self.answers) - 1)](body, number)

    @property
    def formats(self) -> list[str]:
        """Return how each call asked for JSON."""
        return [body.get("response_format", {}).get("type", "text") for body in self.requests]


@asynccontextmanager
async def serving(*answers: Answer) -> AsyncIterator[LlmServer]:
    """Serve on a free port of the loopback."""
    server = LlmServer(list(answers))
    application = web.Application()
    application.router.add_post("/v1/chat/completions", server.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.base_url = f"http://{host}:{port}/v1"
    try:
        yield server
    finally:
        await http_server.stop(runner)
