"""A site of photographs in a process of its own: `python -m tests.bench.ingest.image_site ADDRESS BYTES`.

Every address is another image: the same 7 megapixels with a comment that differs, so that no two have a hash.
"""

from __future__ import annotations

import asyncio
import io
import sys

from aiohttp import web
from PIL import Image

SIZE = (2160, 3240)
SMALL = (540, 810)


def photograph(wanted_bytes: int) -> bytes:
    """Return a JPEG of about so many bytes: soft shapes under grain, as a camera makes them."""
    shapes = [Image.linear_gradient("L").rotate(37 * i, expand=True).resize(SIZE) for i in range(1, 4)]
    grain = Image.effect_noise(SIZE, 40)
    picture = Image.merge("RGB", [Image.blend(shape, grain, 0.3) for shape in shapes])
    for quality in range(96, 30, -2):
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=quality)
        if buffer.tell() <= wanted_bytes:
            break
    return buffer.getvalue()


def numbered(base: bytes, path: str) -> bytes:
    """Return the photograph with a path as its comment: another file, as whole as the first."""
    comment = path.encode()
    return b"".join((base[:2], b"\xff\xfe", (len(comment) + 2).to_bytes(2), comment, base[2:]))


async def main() -> None:
    """Serve until killed."""
    host, _, port = sys.argv[1].rpartition(":")
    base = photograph(int(sys.argv[2]))

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=numbered(base, request.path), content_type="image/jpeg")

    runner = web.ServerRunner(web.Server(answer, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, host, int(port)).start()
    sys.stdout.write(f"serving {len(base)} bytes\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
