"""Bodies with a Content-Encoding, from real HTTP servers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.ingest.worker import body as body_module
from services.ingest.worker import download
from services.ingest.worker.body import Unpacked
from tests.integration.ingest.downloads import LIMIT, fetch, reason
from tests.integration.ingest.site import Site, gzipped, picture


async def test_a_gzip_bomb_ends_at_the_limit(site: Site, tmp_path: Path) -> None:
    bomb = gzipped(bytes(50_000_000))
    assert len(bomb) < LIMIT
    url = site.put("bomb.jpg", bomb, Content_Encoding="gzip", Content_Type="image/jpeg")
    assert await reason(url, tmp_path) == "TOO_LARGE"
    assert (tmp_path / "image").stat().st_size <= LIMIT


async def test_a_packed_image_is_unpacked_and_an_unknown_packing_refused(site: Site, tmp_path: Path) -> None:
    body = picture(2)
    found = await fetch(site.put("packed", gzipped(body), Content_Encoding="gzip"), tmp_path)
    assert found.path.read_bytes() == body
    assert await reason(site.put("odd", b"?", Content_Encoding="br"), tmp_path) == "ENCODING"


async def test_a_packed_body_is_unpacked_away_from_the_event_loop(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, threads = picture(2), set[int]()

    def unpacker(encoding: str) -> Unpacked:
        unpack = body_module.unpacker(encoding)

        def noted(chunk: bytes) -> Iterator[bytes]:
            for part in unpack(chunk):
                threads.add(threading.get_ident())
                yield part

        return noted

    monkeypatch.setattr(download, "unpacker", unpacker)
    found = await fetch(site.put("packed", gzipped(body), Content_Encoding="gzip"), tmp_path)
    assert found.path.read_bytes() == body
    assert threads
    assert threading.get_ident() not in threads
