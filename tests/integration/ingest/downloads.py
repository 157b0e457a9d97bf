"""Fetching for tests: a downloader with short times, and names that resolve as a test says."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from services.ingest.worker.download import Downloader, Fetched
from services.ingest.worker.hosts import HostPauses
from services.ingest.worker.problems import ImageProblem
from services.ingest.worker.settings import IngestWorkerSettings

LIMIT = 1_000_000


def settings(**changes: object) -> IngestWorkerSettings:
    """Return settings of a downloader with short times that may fetch from this machine."""
    values: dict[str, object] = {
        "allow_loopback": True,
        "max_image_bytes": LIMIT,
        "connect_timeout_seconds": 2,
        "read_timeout_seconds": 0.5,
        "total_timeout_seconds": 1.5,
        "longest_host_wait_seconds": 0.2,
    }
    return IngestWorkerSettings(**(values | changes))  # type: ignore[arg-type]


def downloader(used: IngestWorkerSettings, told: list[tuple[str, float]] | None = None) -> Downloader:
    """Return a downloader; the pauses that it would tell other workers of are added to `told`."""

    async def tell(host: str, seconds: float) -> None:
        if told is not None:
            told.append((host, seconds))

    return Downloader(used, HostPauses(used.longest_host_wait_seconds), tell_pause=tell)


async def fetch(url: str, target: Path, *, referer: str = "", **changes: object) -> Fetched:
    """Fetch one image into a folder."""
    async with downloader(settings(**changes)) as opened:
        return await opened.fetch(url, referer=referer, target=target / "image")


async def reason(url: str, target: Path, **changes: object) -> str:
    """Return why an image can't be had."""
    with pytest.raises(ImageProblem) as caught:
        await fetch(url, target, **changes)
    return caught.value.reason


def answering(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> None:
    """Let names resolve to the given addresses, one answer after the other, the last one for ever."""
    left = list(answers)

    def lookup(host: str, port: int, *rest: object, **more: object) -> list[tuple[object, ...]]:
        addresses = left.pop(0) if len(left) > 1 else left[0]
        return [
            (
                socket.AF_INET6 if ":" in a else socket.AF_INET,
                socket.SOCK_STREAM,
                6,
                "",
                (a, port, 0, 0) if ":" in a else (a, port),
            )
            for a in addresses
        ]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
