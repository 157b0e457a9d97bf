"""Serve the recorded pages and their photographs: `python -m samples.spiders.site [port]`."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler

PORT = 8765
_HERE = Path(__file__).resolve().parent
_PHOTOS = _HERE.parent / "photos"
_PAGES = {
    "/fashion-shows/fall-2026-ready-to-wear": "shows.html",
    "/fashion-shows/fall-2026-ready-to-wear/acne-studios": "show-acne-studios.html",
    "/fashion-shows/fall-2026-ready-to-wear/ganni": "show-ganni.html",
    "/category/street-style/": "street-style.html",
    "/copenhagen-street-style-spring-2027/": "street-copenhagen.html",
}


def application(hits: Counter[str] | None = None) -> web.Application:
    """Return the site; `hits` counts the requests by path."""

    @web.middleware
    async def counted(request: web.Request, handler: Handler) -> web.StreamResponse:
        if hits is not None:
            hits[request.path] += 1
        return await handler(request)

    async def page(request: web.Request) -> web.StreamResponse:
        return web.FileResponse(_HERE / "pages" / _PAGES[request.path])

    site = web.Application(middlewares=[counted])
    for path in _PAGES:
        site.router.add_get(path, page)
    site.router.add_static("/photos", _PHOTOS)
    return site


def main() -> None:
    """Serve on this machine alone until Ctrl-C."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else PORT
    web.run_app(application(), host="127.0.0.1", port=port)


if __name__ == "__main__":
    main()
