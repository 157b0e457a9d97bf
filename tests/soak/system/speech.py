"""A speech server that hears a sentence each second: quick, and the same for the same sound."""

from __future__ import annotations

import io
import wave
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

SENTENCES = ("利率下降了", "债券会上涨", "这款锅不粘", "锅底很厚", "孩子要多睡", "早点上床")


@asynccontextmanager
async def speech_server() -> AsyncIterator[str]:
    """Serve OpenAI's transcription call; yield the address of its API."""
    application = web.Application(client_max_size=1 << 27)
    application.router.add_post("/v1/audio/transcriptions", _hear)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


async def _hear(request: web.Request) -> web.Response:
    file = (await request.post())["file"]
    assert isinstance(file, web.FileField)
    with file.file as sound, wave.open(io.BytesIO(sound.read())) as wav:
        seconds = int(wav.getnframes() / wav.getframerate())
    said = [
        {"start": float(second), "end": second + 0.9, "text": SENTENCES[second % len(SENTENCES)]}
        for second in range(seconds)
    ]
    return web.json_response({"language": "zh", "text": "".join(SENTENCES), "segments": said})
