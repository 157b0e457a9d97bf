"""Fetching one image from real HTTP servers: sizes, times, redirects, addresses."""

from __future__ import annotations

import hashlib
import io
import logging
import socket
import time
from pathlib import Path

import pytest
from aiohttp import web

from services.ingest.worker.problems import ImageProblem
from tests.integration.ingest.downloads import LIMIT, answering, fetch, reason
from tests.integration.ingest.site import Site, picture


async def test_the_bytes_arrive_as_they_are_with_their_hashes(site: Site, tmp_path: Path) -> None:
    body = picture(1)
    found = await fetch(site.put("a.jpg", body), tmp_path)
    assert found.path.read_bytes() == body
    assert (found.size, found.length_known) == (len(body), True)
    assert found.sha1 == hashlib.sha1(body).hexdigest()
    assert found.sha256 == hashlib.sha256(body).hexdigest()


async def test_a_redirect_to_a_cdn_is_followed(site: Site, tmp_path: Path) -> None:
    site.picture("cdn/1.jpg")
    site.redirect("hop", "cdn/1.jpg", 307)
    assert (await fetch(site.redirect("start", "/hop"), tmp_path)).size > 0


async def test_redirects_that_do_not_end_are_permanent(site: Site, tmp_path: Path) -> None:
    site.redirect("a", "/b")
    assert await reason(site.redirect("b", "/a"), tmp_path) == "REDIRECT_LOOP"
    for i in range(8):
        site.redirect(f"chain{i}", f"/chain{i + 1}")
    assert await reason(site.url("chain0"), tmp_path) == "REDIRECT_LOOP"
    assert not ImageProblem("REDIRECT_LOOP", "").transient


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:10.0.0.1]/x",
        "http://[64:ff9b::7f00:1]/x",
        "http://10.0.0.1/x",
        "http://100.64.0.1/x",
        "http://0x0a000001/x",
        "http://012.0.0.1/x",
        "http://167772161/x",
        "http://0.0.0.0/x",
        "http://[::]/x",
        "http://[fe80::1]/x",
        "http://[fd00::1]/x",
        "http://192.168.1.1./x",
        "http://224.0.0.1/x",
        "http://[2002:7f00:1::]/x",
    ],
)
async def test_a_hop_that_is_not_on_the_public_internet_is_blocked(
    site: Site,
    tmp_path: Path,
    location: str,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    for url in (location, site.redirect("hop", location)):
        # numbers that only look like hosts are refused before an address is made of them
        assert await reason(url, tmp_path) in {"ADDRESS_BLOCKED", "BAD_URL"}
    assert "elsewhere" not in caplog.text + capsys.readouterr().out


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://a/b", "gopher://a", "http://u:p@{}/x", ""])
async def test_a_hop_to_anything_but_plain_http_is_refused(site: Site, tmp_path: Path, location: str) -> None:
    url = site.redirect("hop", location.format(site.address))
    assert await reason(url, tmp_path) == "BAD_REDIRECT"


@pytest.mark.parametrize("host", ["a" * 64 + ".com", "a..com", ".com", "xn--", "é" * 60 + ".com"])
async def test_a_host_that_can_be_no_name_is_a_bad_address(site: Site, tmp_path: Path, host: str) -> None:
    for url in (f"http://{host}/a.jpg", site.redirect("hop", f"http://{host}/a.jpg")):
        assert await reason(url, tmp_path) in {"BAD_URL", "DNS"}


THIS_MACHINE = ["127.0.0.1", "localhost", "2130706433", "0x7f000001", "127.1", "[::1]", "[::ffff:127.0.0.1]"]


@pytest.mark.parametrize("host", [*THIS_MACHINE, "[64:ff9b::7f00:1]", "user@127.0.0.1"])
async def test_without_the_setting_this_machine_is_never_reached(
    site: Site, tmp_path: Path, host: str
) -> None:
    url = f"http://{host}:{site.address.rpartition(':')[2]}/a.jpg"
    site.picture("a.jpg")
    assert await reason(url, tmp_path, allow_loopback=False) in {"ADDRESS_BLOCKED", "BAD_URL"}
    assert not site.hits


async def test_a_blocked_address_says_whether_it_is_this_machine_itself(tmp_path: Path) -> None:
    said = {}
    for host in ("127.0.0.1", "localhost", "10.0.0.1"):
        with pytest.raises(ImageProblem) as caught:
            await fetch(f"http://{host}/a.jpg", tmp_path, allow_loopback=False)
        said[host] = "this machine itself" in caught.value.message
    assert said == {"127.0.0.1": True, "localhost": True, "10.0.0.1": False}


async def test_a_proxy_in_the_environment_is_not_used(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://{site.address}")
    assert await reason("http://10.0.0.1/a.jpg", tmp_path) == "ADDRESS_BLOCKED"
    assert not site.hits


async def test_a_name_is_refused_when_any_of_its_addresses_is_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, ["93.184.215.14", "fd00::1"])
    assert await reason("http://mixed.example/a.jpg", tmp_path, allow_loopback=False) == "ADDRESS_BLOCKED"


async def test_a_name_that_turns_to_this_machine_the_second_time_is_blocked(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = site.address.rpartition(":")[2]
    site.picture("a.jpg")
    answering(monkeypatch, ["127.0.0.1"])
    url = f"http://rebind.example:{port}/a.jpg"
    assert await reason(url, tmp_path, allow_loopback=False) == "ADDRESS_BLOCKED"
    assert not site.hits


async def test_an_unknown_name_is_worth_another_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lookup(*rest: object, **more: object) -> list[tuple[object, ...]]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    assert await reason("http://nowhere.example/a.jpg", tmp_path) == "DNS"
    assert ImageProblem("DNS", "").transient


async def test_one_byte_too_many_is_refused_whether_announced_or_not(site: Site, tmp_path: Path) -> None:
    assert (await fetch(site.put("fits", b"x" * LIMIT), tmp_path)).size == LIMIT
    assert await reason(site.put("more", b"x" * (LIMIT + 1)), tmp_path) == "TOO_LARGE"
    assert await reason(site.drip("endless", b"x" * 100_000, 0), tmp_path) == "TOO_LARGE"


async def test_a_slow_body_ends_at_the_time_limits(site: Site, tmp_path: Path) -> None:
    started = time.monotonic()
    assert await reason(site.drip("slow", b"x", 0.2), tmp_path) == "TIMEOUT"
    assert await reason(site.drip("silent", b"x", 60), tmp_path) == "TIMEOUT"
    assert time.monotonic() - started < 4
    assert ImageProblem("TIMEOUT", "").transient


async def test_a_cut_body_is_worth_another_try(site: Site, tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: image/jpeg\r\n"
    short = site.raw("short", head + b"Content-Length: 1000\r\n\r\nhalf")
    assert await reason(short, tmp_path) == "CUT_SHORT"
    chunked = site.raw("chunked", head + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
    assert await reason(chunked, tmp_path) == "CUT_SHORT"


async def test_a_body_ended_by_closing_is_known_to_be_doubtful(site: Site, tmp_path: Path) -> None:
    old = site.raw("old", b"HTTP/1.0 200 OK\r\nContent-Type: image/jpeg\r\n\r\n" + picture()[:100])
    found = await fetch(old, tmp_path)
    assert (found.size, found.length_known) == (100, False)


@pytest.mark.parametrize(
    ("status", "wanted"),
    [(404, "HTTP_STATUS"), (410, "HTTP_STATUS"), (204, "HTTP_STATUS"), (500, "SERVER_BUSY")],
)
async def test_a_status_is_permanent_or_not(site: Site, tmp_path: Path, status: int, wanted: str) -> None:
    assert await reason(site.put("status", b"", status=status), tmp_path) == wanted


async def test_a_403_is_tried_once_more_without_the_referer(site: Site, tmp_path: Path) -> None:
    body = picture()

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=403) if "Referer" in request.headers else web.Response(body=body)

    found = await fetch(site.answer("picky", answer), tmp_path, referer="https://v.example/show")
    assert found.size == len(body)
    assert site.hits["picky"] == 2
    assert await reason(site.put("never", b"", status=403), tmp_path) == "HTTP_STATUS"


async def test_escapes_of_a_signed_address_are_sent_as_they_are(site: Site, tmp_path: Path) -> None:
    seen: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append(request.raw_path)
        return web.Response(body=picture())

    site.answer("a~b/c d.jpg", answer)
    await fetch(site.url("a%7Eb/c%20d.jpg?sig=%2F%2b&x=%7E"), tmp_path)
    assert seen == ["/a%7Eb/c%20d.jpg?sig=%2F%2b&x=%7E"]


async def test_an_empty_body_is_no_image(site: Site, tmp_path: Path) -> None:
    assert await reason(site.put("empty", b""), tmp_path) == "NOT_AN_IMAGE"


def test_the_pictures_of_the_tests_are_pictures() -> None:
    from PIL import Image

    assert Image.open(io.BytesIO(picture(3, kind="WEBP"))).size == (64, 48)
