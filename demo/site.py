"""A small image site on loopback: what the spider's articles point to."""

from pathlib import Path

from aiohttp import web

PHOTOS = Path(__file__).resolve().parent.parent / "samples" / "photos"
BROKEN = "hubble_deep_field_detail.jpg"


class ImageSite:
    """Serve the sample photographs at `/photos/NAME`; `/broken/NAME` sends only the first half of one.

    The broken one has a right Content-Length and Content-Type: only decoding it tells that it is broken.
    """

    def __init__(self) -> None:
        self._runner: web.AppRunner | None = None
        self.requests: list[str] = []
        self.origin = ""

    async def start(self) -> None:
        """Listen on a free port; `origin` is its address from then on."""
        application = web.Application()
        application.router.add_get("/photos/{name}", self._photo)
        application.router.add_get("/broken/{name}", self._broken)
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.origin = f"http://{host}:{port}"

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _photo(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request.path)
        return web.FileResponse(PHOTOS / request.match_info["name"])

    async def _broken(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request.path)
        whole = (PHOTOS / request.match_info["name"]).read_bytes()
        return web.Response(body=whole[: len(whole) // 2], content_type="image/jpeg")
