"""Fetch from the web on somebody's word: public addresses only, every hop checked, failures with reasons."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Self

import aiohttp
from yarl import URL

from libs.common.fetch_problems import FetchProblem, MachineTrouble
from libs.common.guard import AddressBlocked, Guard, GuardedResolver, is_loopback, watching
from libs.common.host_places import HostPlaces
from libs.common.machine import is_machines

MAX_REDIRECTS = 5
MOST_AT_ONCE = 256
LONGEST_PAUSE_SECONDS = 3600.0
BUSY_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Manners:
    """How a fetcher behaves: who it says it is, how long it waits for a connection and the next bytes."""

    user_agent: str
    accept: str = "*/*"
    connect_timeout_seconds: float = 10.0
    read_timeout_seconds: float = 30.0
    connections_per_host: int = 8
    read_buffer_bytes: int = 1 << 16
    allow_loopback: bool = False
    """For a demo and tests alone."""


class Fetching:
    """One guarded HTTP session."""

    def __init__(self, manners: Manners) -> None:
        self._manners = manners
        self._places = HostPlaces(manners.connections_per_host, MOST_AT_ONCE)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        guard = Guard(allow_loopback=self._manners.allow_loopback)
        connector = aiohttp.TCPConnector(
            resolver=GuardedResolver(guard),
            socket_factory=guard.open_socket,
            limit=0,  # whoever asks for a connection has a place: waiting for one is not counted as fetching
            use_dns_cache=False,  # an answer is checked when it is used, and the guard has the last word
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(
                total=None,
                sock_connect=self._manners.connect_timeout_seconds,
                sock_read=self._manners.read_timeout_seconds,
            ),
            headers={
                "User-Agent": self._manners.user_agent,
                "Accept": self._manners.accept,
                "Accept-Encoding": "identity",
            },
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=self._manners.read_buffer_bytes,
            auto_decompress=False,
            trust_env=False,  # a proxy would connect where the guard can't look
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def open(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        before_hop: Callable[[str], Awaitable[None]] | None = None,
        limit: asyncio.Timeout | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Ask for `url`, follow its redirects, and lend the answer, whatever its status.

        `before_hop` is told each hop's host before anything is asked of it; what it raises ends the fetch.
        `limit`, which the caller is inside of, stands still while a hop waits for a connection of its host.
        What goes wrong inside the block, too, becomes a FetchProblem.

        Raises:
            FetchProblem: there is no answer to be had.
            MachineTrouble: no connection can be opened from here.
        """
        if self._session is None:
            raise RuntimeError("a Fetching is used inside `async with`")
        with _problems():
            here, seen = parsed(url), set[URL]()
            while True:
                _check_hop(here, seen)
                seen.add(here)
                async with self._places.one(str(here.origin()), limit):
                    if before_hop is not None:
                        await before_hop(here.host or "")
                    async with self._session.get(here, headers=headers, allow_redirects=False) as response:
                        if response.status not in _REDIRECTS:
                            yield response
                            return
                        location = response.headers.get("Location", "")
                if not location:
                    raise FetchProblem("BAD_REDIRECT", "a redirect leads nowhere")
                here = here.join(parsed(location))


def _check_hop(here: URL, seen: set[URL]) -> None:
    if here.scheme not in {"http", "https"} or not here.host or here.user or here.password:
        raise FetchProblem("BAD_REDIRECT" if seen else "BAD_URL", "only plain http and https are fetched")
    if here in seen or len(seen) > MAX_REDIRECTS:
        raise FetchProblem("REDIRECT_LOOP", "the redirects don't end")


@contextmanager
def _problems() -> Iterator[None]:
    """Turn the client's errors into FetchProblems."""
    with watching() as refused:
        try:
            yield
        except AddressBlocked as error:
            raise _blocked(refused) from error
        except TimeoutError as error:
            raise FetchProblem("TIMEOUT", "the server took too long") from error
        except aiohttp.ClientConnectorError as error:
            if refused or isinstance(error.os_error, AddressBlocked):
                raise _blocked(refused) from error
            if is_machines(error.os_error):
                raise MachineTrouble("no connection can be opened from here") from error
            if isinstance(error, aiohttp.ClientConnectorDNSError):
                raise FetchProblem("DNS", "the host's name can't be resolved") from error
            raise FetchProblem("CONNECTION", "the connection failed") from error
        except (aiohttp.InvalidURL, UnicodeError) as error:  # the latter: a host that no resolver takes
            raise FetchProblem("BAD_URL", "the address is not one that can be fetched") from error
        except aiohttp.ClientPayloadError as error:
            raise FetchProblem("CUT_SHORT", "the transfer ended too early") from error
        except (aiohttp.ClientError, ConnectionError) as error:
            raise FetchProblem("CONNECTION", f"the transfer broke ({type(error).__name__})") from error


def parsed(text: str) -> URL:
    """Return the address, its escapes as they are: a signed address breaks when it is re-quoted.

    Raises:
        FetchProblem: it is malformed.
    """
    plain = text.isascii() and not any(c in ' "<>\\^`{|}' for c in text)
    try:
        address = URL(text, encoded=plain)
        address.host  # noqa: B018  (it is decoded when it is read: a name that is none is malformed, too)
    except ValueError as error:
        raise FetchProblem("BAD_URL", "the address is malformed") from error
    return address


def retry_after_seconds(value: str | None, now: datetime | None = None) -> float | None:
    """Return the pause a Retry-After header asks for, None when it is absent or says nothing."""
    if not value:
        return None
    if value.strip().isdecimal():
        return min(float(value.strip()), LONGEST_PAUSE_SECONDS)
    try:
        when = parsedate_to_datetime(value)
    except (ValueError, OverflowError):  # the latter: a time zone beyond all numbers
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    seconds = (when - (now or datetime.now(UTC))).total_seconds()
    return max(0.0, min(seconds, LONGEST_PAUSE_SECONDS))


def _blocked(refused: list[str]) -> FetchProblem:
    own = " but this machine itself" if any(map(is_loopback, refused)) else ""
    return FetchProblem("ADDRESS_BLOCKED", f"the address is not on the public internet{own}")
