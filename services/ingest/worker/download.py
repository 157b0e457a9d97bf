"""Fetch one image into a file: bounded in size and time, public addresses only, every hop checked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from libs.common.fetch_problems import FetchProblem, HostPaused
from libs.common.fetching import BUSY_STATUSES, Fetching, Manners, retry_after_seconds
from services.ingest.worker.body import Sink, too_large, unpacker
from services.ingest.worker.hosts import HostPauses
from services.ingest.worker.problems import ImageProblem
from services.ingest.worker.settings import IngestWorkerSettings

CHUNK_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file on disk and what its bytes hash to.

    `length_known` is False when the server ended the body by closing the connection: a cut looks like an end.
    """

    path: Path
    sha1: str
    sha256: str
    size: int
    length_known: bool


class Downloader:
    """One HTTP session for all galleries of a worker."""

    def __init__(
        self,
        settings: IngestWorkerSettings,
        pauses: HostPauses,
        *,
        tell_pause: Callable[[str, float], Awaitable[None]],
    ) -> None:
        """Prepare; `tell_pause` tells other workers that a host asked for a pause of so many seconds."""
        self._settings = settings
        self._pauses = pauses
        self._tell_pause = tell_pause
        self._fetching = Fetching(
            Manners(
                user_agent="frontrow-ingest/1",
                accept="image/*",
                connect_timeout_seconds=settings.connect_timeout_seconds,
                read_timeout_seconds=settings.read_timeout_seconds,
                connections_per_host=settings.downloads_per_host,
                read_buffer_bytes=CHUNK_BYTES,  # else each piece that reaches a thread is a few packets
                allow_loopback=settings.allow_loopback,
            )
        )

    async def __aenter__(self) -> Self:
        await self._fetching.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._fetching.__aexit__(kind, error, trace)

    async def fetch(self, url: str, *, referer: str, target: Path) -> Fetched:
        """Fetch `url` into `target`; a 403 is tried once more without the referer.

        Raises:
            ImageProblem: it can't be had.
            HostPaused: its host asked for a long pause.
            MachineTrouble: this machine can't fetch anything just now, its disk being full for example.
        """
        try:
            return await self._fetch_patiently(url, referer, target)
        except ImageProblem:
            raise
        except FetchProblem as problem:
            raise ImageProblem(problem.reason, problem.message) from problem

    async def _fetch_patiently(self, url: str, referer: str, target: Path) -> Fetched:
        """Fetch, and once more after the pause that a busy host asked for."""
        asked = False
        while True:
            try:
                return await self._fetch_once(url, referer, target)
            except _Resting as resting:  # no time of the image's own is spent on it, and no connection held
                await self._pauses.wait(resting.host)
            except _Busy as busy:
                if busy.is_news and busy.pause_seconds:
                    await self._tell_pause(busy.host, busy.pause_seconds)
                if asked or busy.pause_seconds is None:
                    raise busy.problem() from busy
                asked = True
                try:
                    await self._pauses.wait(busy.host)
                except HostPaused as paused:
                    paused.asked = True
                    raise

    async def _fetch_once(self, url: str, referer: str, target: Path) -> Fetched:
        try:
            # one limit around all hops
            async with asyncio.timeout(self._settings.total_timeout_seconds) as limit:
                try:
                    return await self._follow(url, referer, target, limit)
                except _Forbidden:
                    return await self._follow(url, "", target, limit)
        except TimeoutError as error:
            raise ImageProblem("TIMEOUT", "it took too long") from error
        except _Forbidden as error:
            raise ImageProblem("HTTP_STATUS", "the server answered 403") from error

    async def _follow(self, url: str, referer: str, target: Path, limit: asyncio.Timeout) -> Fetched:
        headers = {"Referer": referer} if referer else {}
        async with self._fetching.open(url, headers, before_hop=self._let_rest, limit=limit) as response:
            return await self._receive(response, target)

    async def _let_rest(self, host: str) -> None:
        if self._pauses.are_on(host):
            raise _Resting(host)

    async def _receive(self, response: aiohttp.ClientResponse, target: Path) -> Fetched:
        if response.status != 200:
            raise self._status_problem(response)
        limit = self._settings.max_image_bytes
        if response.content_length is not None and response.content_length > limit:
            raise too_large(limit)
        unpack = unpacker(response.headers.get("Content-Encoding", ""))
        chunked = "chunked" in response.headers.get("Transfer-Encoding", "").lower()
        with Sink(target, limit) as sink:
            async for chunk in response.content.iter_chunked(CHUNK_BYTES):
                await asyncio.to_thread(sink.take, chunk, unpack)
        if sink.size == 0:
            raise ImageProblem("NOT_AN_IMAGE", "the response is empty")
        return Fetched(
            target,
            sink.sha1.hexdigest(),
            sink.sha256.hexdigest(),
            sink.size,
            length_known=chunked or response.content_length is not None,
        )

    def _status_problem(self, response: aiohttp.ClientResponse) -> Exception:
        status = response.status
        if status == 403:
            return _Forbidden()
        if status in BUSY_STATUSES:
            host = response.url.host or ""
            pause = retry_after_seconds(response.headers.get("Retry-After"))
            is_news = pause is not None and self._pauses.pause(host, pause)
            return _Busy(status, host, pause, is_news=is_news)
        return ImageProblem("HTTP_STATUS", f"the server answered {status}")


class _Forbidden(Exception):
    """The server answered 403."""


class _Resting(Exception):
    """A hop leads to a host that asked for a pause before."""

    def __init__(self, host: str) -> None:
        super().__init__(f"{host} is left alone for now")
        self.host = host


class _Busy(Exception):
    """The server can't answer now; `pause_seconds` is what it asked for, None when it didn't.

    `is_news`: nobody here knew of that pause.
    """

    def __init__(self, status: int, host: str, pause_seconds: float | None, *, is_news: bool) -> None:
        super().__init__(f"{host} answered {status}")
        self.status, self.host, self.pause_seconds, self.is_news = status, host, pause_seconds, is_news

    def problem(self) -> ImageProblem:
        """Return it as what the job is told."""
        return ImageProblem("SERVER_BUSY", f"the server answered {self.status}")
