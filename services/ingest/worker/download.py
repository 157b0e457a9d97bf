"""Fetch one image into a file: bounded in size and time, public addresses only, every hop checked."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
from yarl import URL

from libs.common.guard import AddressBlocked, Guard, GuardedResolver, watching
from services.ingest.worker.body import Sink, too_large, unpacker
from services.ingest.worker.hosts import HostPauses, retry_after_seconds
from services.ingest.worker.problems import HostPaused, ImageProblem, WorkerTrouble
from services.ingest.worker.settings import IngestWorkerSettings

MAX_REDIRECTS = 5
CHUNK_BYTES = 1 << 18

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
# A connection that fails for these is missed by this machine, not by the host.
_OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_HEADERS = {"User-Agent": "frontrow-ingest/1", "Accept": "image/*", "Accept-Encoding": "identity"}


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

    def __init__(self, settings: IngestWorkerSettings) -> None:
        self._settings = settings
        self._pauses = HostPauses(settings.longest_host_wait_seconds)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        guard = Guard(allow_loopback=self._settings.allow_loopback)
        connector = aiohttp.TCPConnector(
            resolver=GuardedResolver(guard),
            socket_factory=guard.open_socket,
            limit=256,
            limit_per_host=self._settings.downloads_per_host,
            use_dns_cache=False,  # an answer is checked when it is used, and the guard has the last word
        )
        timeout = aiohttp.ClientTimeout(
            total=None,  # one limit around all hops and the pause of a host, see fetch
            sock_connect=self._settings.connect_timeout_seconds,
            sock_read=self._settings.read_timeout_seconds,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=timeout,
            headers=_HEADERS,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=CHUNK_BYTES,  # else each piece that reaches a thread is a few packets
            auto_decompress=False,  # unpacked below, where the size is counted
            trust_env=False,  # a proxy would connect where the guard can't look
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def fetch(self, url: str, *, referer: str, target: Path) -> Fetched:
        """Fetch `url` into `target`; a 403 is tried once more without the referer.

        Raises:
            ImageProblem: it can't be had.
            HostPaused: its host asked for a long pause.
            WorkerTrouble: this machine can't fetch anything just now, its disk being full for example.
        """
        with watching() as refused:
            try:
                return await self._fetch_patiently(url, referer, target)
            except AddressBlocked as error:
                raise _blocked() from error
            except (aiohttp.ClientConnectorError, OSError) as error:
                if refused or isinstance(getattr(error, "os_error", None), AddressBlocked):
                    raise _blocked() from error
                if (getattr(error, "os_error", None) or error).errno in _OURS:
                    raise WorkerTrouble("no connection can be opened from here") from error
                if isinstance(error, aiohttp.ClientConnectorDNSError):
                    raise ImageProblem("DNS", "the host's name can't be resolved") from error
                raise ImageProblem("CONNECTION", "the connection failed") from error
            except (aiohttp.InvalidURL, UnicodeError) as error:  # the latter: a host that no resolver takes
                raise ImageProblem("BAD_URL", "the address is not one that can be fetched") from error
            except aiohttp.ClientError as error:
                raise ImageProblem("CONNECTION", f"the transfer broke ({type(error).__name__})") from error

    async def _fetch_patiently(self, url: str, referer: str, target: Path) -> Fetched:
        """Fetch, and once more after the pause that a busy host asked for."""
        host = _url(url).host or ""
        await self._pauses.wait(host)
        try:
            return await self._fetch_once(url, referer, target)
        except _Busy as busy:
            if busy.pause_seconds is None:
                raise busy.problem() from busy
            try:
                await self._pauses.wait(busy.host)
            except HostPaused as paused:
                paused.asked = True
                raise
        try:
            return await self._fetch_once(url, referer, target)
        except _Busy as busy:
            raise busy.problem() from busy

    async def _fetch_once(self, url: str, referer: str, target: Path) -> Fetched:
        try:
            async with asyncio.timeout(self._settings.total_timeout_seconds):
                try:
                    return await self._follow(url, referer, target)
                except _Forbidden:
                    return await self._follow(url, "", target)
        except TimeoutError as error:
            raise ImageProblem("TIMEOUT", "it took too long") from error
        except _Forbidden as error:
            raise ImageProblem("HTTP_STATUS", "the server answered 403") from error

    async def _follow(self, url: str, referer: str, target: Path) -> Fetched:
        assert self._session is not None
        here, seen = _url(url), set[URL]()
        headers = {"Referer": referer} if referer else {}
        while True:
            if here.scheme not in {"http", "https"} or not here.host or here.user or here.password:
                raise ImageProblem(
                    "BAD_REDIRECT" if seen else "BAD_URL", "only plain http and https are fetched"
                )
            if here in seen or len(seen) > MAX_REDIRECTS:
                raise ImageProblem("REDIRECT_LOOP", "the redirects don't end")
            seen.add(here)
            async with self._session.get(here, headers=headers, allow_redirects=False) as response:
                if response.status not in _REDIRECTS:
                    return await self._receive(response, target)
                location = response.headers.get("Location", "")
            if not location:
                raise ImageProblem("BAD_REDIRECT", "a redirect leads nowhere")
            here = here.join(_url(location))

    async def _receive(self, response: aiohttp.ClientResponse, target: Path) -> Fetched:
        if response.status != 200:
            raise self._status_problem(response)
        limit = self._settings.max_image_bytes
        if response.content_length is not None and response.content_length > limit:
            raise too_large(limit)
        unpack = unpacker(response.headers.get("Content-Encoding", ""), limit)
        chunked = "chunked" in response.headers.get("Transfer-Encoding", "").lower()
        with Sink(target, limit) as sink:
            async for chunk in response.content.iter_chunked(CHUNK_BYTES):
                await asyncio.to_thread(sink.write, unpack(chunk))
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
        if status in _BUSY:
            host = response.url.host or ""
            pause = retry_after_seconds(response.headers.get("Retry-After"))
            if pause is not None:
                self._pauses.pause(host, pause)
            return _Busy(status, host, pause)
        return ImageProblem("HTTP_STATUS", f"the server answered {status}")


class _Forbidden(Exception):
    """The server answered 403."""


class _Busy(Exception):
    """The server can't answer now; `pause_seconds` is what it asked for, None when it didn't."""

    def __init__(self, status: int, host: str, pause_seconds: float | None) -> None:
        super().__init__(f"{host} answered {status}")
        self.status, self.host, self.pause_seconds = status, host, pause_seconds

    def problem(self) -> ImageProblem:
        """Return it as what the job is told."""
        return ImageProblem("SERVER_BUSY", f"the server answered {self.status}")


def _url(text: str) -> URL:
    """Return the address, its escapes as they are: a signed address breaks when it is re-quoted."""
    plain = text.isascii() and not any(c in ' "<>\\^`{|}' for c in text)
    try:
        return URL(text, encoded=plain)
    except ValueError as error:
        raise ImageProblem("BAD_URL", "the address is malformed") from error


def _blocked() -> ImageProblem:
    return ImageProblem("ADDRESS_BLOCKED", "the address is not on the public internet")
