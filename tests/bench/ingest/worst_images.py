"""The images that cost the most memory, as files; and a site that serves them with every bad habit."""

from __future__ import annotations

import asyncio
import gzip
import io
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web
from PIL import Image

SIDE = 7_745  # 60 megapixels: the most that is taken
LIMIT_BYTES = 20_000_000
GZIPPED = "bomb.gz.jpg"
ENDLESS = "endless.jpg"


def _shapes(mode: str) -> Image.Image:
    return Image.linear_gradient("L").resize((SIDE, SIDE)).convert(mode)


def _turned() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


def _animation(count: int, side: int) -> tuple[Image.Image, dict[str, Any]]:
    frames = [Image.new("RGB", (side, side), (n % 256, n // 2, 255 * (n % 2))) for n in range(count)]
    return frames[0], {"save_all": True, "append_images": frames[1:], "method": 0}


def _saved(make: Callable[[], Image.Image], kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    make().save(buffer, kind, **options)
    return buffer.getvalue()


def _animated(count: int, side: int) -> bytes:
    first, options = _animation(count, side)
    return _saved(lambda: first, "WEBP", **options)


_MAKE: Mapping[str, Callable[[], bytes]] = {
    "turned.jpg": lambda: _saved(partial(_shapes, "RGB"), "JPEG", subsampling=0, exif=_turned()),
    "progressive.jpg": lambda: _saved(partial(_shapes, "RGB"), "JPEG", subsampling=0, progressive=True),
    "cmyk.jpg": lambda: _saved(partial(_shapes, "CMYK"), "JPEG"),
    "cmyk_progressive.jpg": lambda: _saved(partial(_shapes, "CMYK"), "JPEG", progressive=True),
    "alpha.png": lambda: _saved(partial(_shapes, "LA"), "PNG", compress_level=1),
    "sixteen.png": lambda: _saved(partial(Image.new, "I;16", (SIDE, SIDE), 0x8000), "PNG", compress_level=1),
    "large.webp": lambda: _saved(partial(_shapes, "RGB"), "WEBP", method=0),
    "frames500.webp": lambda: _animated(500, 64),
    "frames200.webp": lambda: _animated(200, 1_000),
    "bomb.png": lambda: _saved(partial(Image.new, "1", (12_000, 12_000)), "PNG", compress_level=9),
    "one_more.jpg": lambda: bytes(LIMIT_BYTES + 1),
    GZIPPED: lambda: gzip.compress(bytes(500_000_000), 9),
}


def make(folder: Path) -> list[str]:
    """Write all files that aren't there yet; return the names of all that the site answers to."""
    folder.mkdir(exist_ok=True)
    for name, body in _MAKE.items():
        if not (folder / name).exists():
            (folder / name).write_bytes(body())
    return [*_MAKE, ENDLESS]


async def _answer(folder: Path, request: web.BaseRequest) -> web.StreamResponse:
    name = request.path.rpartition("/")[2]
    if name == ENDLESS:
        response = web.StreamResponse(headers={"Content-Type": "image/jpeg"})
        await response.prepare(request)
        while True:
            await response.write(bytes(1 << 16))
    headers = {"Content-Encoding": "gzip"} if name == GZIPPED else {}
    return web.Response(body=(folder / name).read_bytes(), content_type="image/jpeg", headers=headers)


async def main() -> None:
    """Serve until killed: `python -m tests.bench.ingest.worst_images PORT FOLDER HOST…`."""
    port, folder, *hosts = sys.argv[1:]
    server = web.Server(partial(_answer, Path(folder)), access_log=None)
    runner = web.ServerRunner(server)
    await runner.setup()
    for host in hosts:
        await web.TCPSite(runner, host, int(port)).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
