"""Connect to public addresses only, whatever a URL, a redirect or a DNS answer says.

The last word has the socket factory: it sees the very address that is connected to, so that IP literals in
any spelling, redirects and names that resolve differently the second time are all met. The resolver comes
before it and refuses a name as soon as one of its addresses is not public.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar

from aiohttp.abc import AbstractResolver, ResolveResult

AddrInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[object, ...]]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Beyond what `is_global` knows: translation and tunnel prefixes hide an IPv4 address inside.
_NEVER = tuple(
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/8",
        "100.64.0.0/10",
        "192.0.0.0/24",
        "192.88.99.0/24",
        "198.18.0.0/15",
        "240.0.0.0/4",
        "::/96",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "100::/64",
        "2001::/23",
        "2002::/16",
        "3fff::/20",
        "5f00::/16",
        "fec0::/10",
    )
)

LOOKUPS_AT_ONCE = 8
_IN_NUMBERS = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV

_refused: ContextVar[list[str]] = ContextVar("refused_addresses")


class AddressBlocked(OSError):
    """The address is not public."""


@contextmanager
def watching() -> Iterator[list[str]]:
    """Collect the addresses that are refused inside the block.

    The connection is made by tasks that race each other, which loses the class of an error but not this list.
    """
    refused: list[str] = []
    token = _refused.set(refused)
    try:
        yield refused
    finally:
        _refused.reset(token)


def is_public(text: str) -> bool:
    """Tell whether an address (text of an IP, with or without a scope) belongs to the public internet."""
    address = _parse(text)
    if address is None or address.is_multicast or address.is_unspecified or not address.is_global:
        return False
    return not any(address.version == network.version and address in network for network in _NEVER)


def is_loopback(text: str) -> bool:
    """Tell whether an address is this machine itself."""
    address = _parse(text)
    return address is not None and address.is_loopback


def _parse(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


class Guard:
    """Decide on addresses; `allow_loopback` is for a demo and tests alone."""

    def __init__(self, *, allow_loopback: bool = False) -> None:
        self._allow_loopback = allow_loopback

    def allows(self, address: str) -> bool:
        """Tell whether an address may be connected to."""
        return is_public(address) or (self._allow_loopback and is_loopback(address))

    def check(self, address: str) -> None:
        """Return if an address may be connected to. Raises AddressBlocked."""
        if not self.allows(address):
            refused = _refused.get(None)
            if refused is not None:
                refused.append(address)
            raise AddressBlocked(f"{address} is not a public address")

    def open_socket(self, info: AddrInfo) -> socket.socket:
        """Make the socket for one address that is about to be connected to. Raises AddressBlocked."""
        family, kind, protocol, _, address = info
        if family not in {socket.AF_INET, socket.AF_INET6}:
            raise AddressBlocked(f"address family {family} is not allowed")
        self.check(str(address[0]))
        return socket.socket(family, kind, protocol)


class GuardedResolver(AbstractResolver):
    """Resolve names, and refuse those of which any address may not be connected to.

    In threads of its own: a name server that hangs holds up look-ups, but not the disk and the store, which
    share the process's other threads.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._threads = ThreadPoolExecutor(LOOKUPS_AT_ONCE, thread_name_prefix="lookup")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """See AbstractResolver. Raises AddressBlocked, or OSError when the name is unknown."""
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, _look_up, host, port, family)
        for result in found:
            self._guard.check(result["host"])
        return found

    async def close(self) -> None:
        """See AbstractResolver. Look-ups that still hang are not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
    infos = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [
        ResolveResult(
            hostname=host,
            host=str(address[0]),
            port=int(address[1]),
            family=family,
            proto=protocol,
            flags=_IN_NUMBERS,
        )
        for family, _, protocol, _, address in infos
    ]
