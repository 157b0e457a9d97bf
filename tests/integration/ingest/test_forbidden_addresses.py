"""Addresses that no gallery may reach, through the real worker (server-side request forgery).

One address of the loopback plays the public internet. Everything else of this machine is forbidden, as it is
in production, and a trap listens there.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from frontrow.ingest.v1 import ingest_job_pb2

from libs.common.guard import Guard
from tests.integration.ingest.chain import Chain
from tests.integration.ingest.site import Site, image_site, picture

PUBLIC = "127.0.0.77"
SECRET = "secret-of-this-machine"


@pytest.fixture
async def public(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    allows: Callable[[Guard, str], bool] = Guard.allows
    monkeypatch.setattr(Guard, "allows", lambda self, address: address == PUBLIC or allows(self, address))
    async with image_site(PUBLIC) as running:
        yield running


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[list[str]]]:
    """Give what names resolve to: one answer after the other, the last one for ever."""
    found: dict[str, list[list[str]]] = {}
    real = socket.getaddrinfo

    def lookup(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        answers = found.get(host)
        if answers is None:
            return real(host, port, *rest, **more)
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, port, 0, 0))
            if ":" in address
            else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in addresses
        ]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    return found


def forbidden(public: Site, trap: Site, names: dict[str, list[list[str]]]) -> dict[str, str]:
    """Return addresses that must not be reached or not be taken, and the reason that each is to get."""
    port, trapped = public.address.rpartition(":")[2], trap.address.rpartition(":")[2]
    names["rebind.example"] = [[PUBLIC], ["127.0.0.1"]]
    names["mixed.example"] = [[PUBLIC, "fd00::1"]]
    public.redirect("rebind", f"http://rebind.example:{trapped}/secret.jpg")
    public.picture("1.jpg")
    return {
        public.redirect("metadata", "http://169.254.169.254/latest/meta-data/"): "ADDRESS_BLOCKED",
        public.redirect("mapped", f"http://[::ffff:127.0.0.1]:{trapped}/secret.jpg"): "ADDRESS_BLOCKED",
        public.redirect("nat64", f"http://[64:ff9b::7f00:1]:{trapped}/secret.jpg"): "ADDRESS_BLOCKED",
        public.redirect("plain", f"http://127.0.0.1:{trapped}/secret.jpg", 307): "ADDRESS_BLOCKED",
        public.redirect("decimal", f"http://2130706433:{trapped}/secret.jpg", 301): "BAD_URL",
        public.redirect("file", "file:///etc/passwd"): "BAD_REDIRECT",
        public.url("rebind").replace(PUBLIC, "rebind.example"): "ADDRESS_BLOCKED",
        f"http://mixed.example:{port}/1.jpg": "ADDRESS_BLOCKED",
        f"http://127.0.0.1:{trapped}/secret.jpg": "ADDRESS_BLOCKED",
        public.put("login.jpg", f"<html>{SECRET}</html>".encode(), Content_Type="image/jpeg"): "NOT_AN_IMAGE",
        public.put("error.jpg", SECRET.encode(), status=404): "HTTP_STATUS",
    }


async def test_no_redirect_name_or_proxy_leads_a_gallery_to_this_machine(
    chain: Chain,
    article: str,
    public: Site,
    names: dict[str, list[list[str]]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    trap = chain.site
    trap.put("secret.jpg", SECRET.encode())
    for variable in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(variable, f"http://{trap.address}")
    monkeypatch.setenv("no_proxy", "127.0.0.1")  # an operator's S3 may lie behind a proxy, images may not
    wanted = forbidden(public, trap, names)
    await chain.work(allow_loopback=False)
    job = await chain.ended(await chain.submit(*wanted, url=article))
    assert (job.failure_reason, job.attempts) == ("IMAGE_REJECTED", 1)
    assert {image.url: image.reason for image in job.images} == wanted
    assert not trap.hits
    assert public.hits["rebind"] == 1, "the name was public when it was asked for the first time"
    assert public.hits["1.jpg"] == 0
    printed = capfd.readouterr()
    told = [caplog.text, printed.out, printed.err, job.error_message, *(i.message for i in job.images)]
    assert not [text for text in told if SECRET in text or "root:" in text or "elsewhere" in text]


async def test_a_redirect_from_the_public_internet_to_a_cdn_there_is_followed_and_stored(
    chain: Chain, article: str, public: Site, names: dict[str, list[list[str]]]
) -> None:
    port = public.address.rpartition(":")[2]
    names["cdn.example"] = [[PUBLIC]]
    body = picture(7)
    public.put("cdn/7.jpg", body)
    url = public.redirect("start", f"http://cdn.example:{port}/cdn/7.jpg")
    await chain.work(allow_loopback=False)
    job = await chain.ended(await chain.submit(url, url=article))
    assert job.done_reason == ingest_job_pb2.DONE_REASON_CREATED
    assert await chain.store.get_bytes(job.images[0].media_key) == body
