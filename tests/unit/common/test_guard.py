"""Which addresses belong to the public internet."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from libs.common.guard import AddressBlocked, Guard, GuardedResolver, is_public, watching


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "93.184.215.14", "2606:4700:4700::1111", "::ffff:8.8.8.8", "2a00:1450:4001::1"]
)
def test_public_addresses_are_allowed(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.255.254",
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "192.0.0.170",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b::808:808",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "fc00::1",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
        "not an address",
        "",
    ],
)
def test_everything_else_is_not(address: str) -> None:
    assert not is_public(address)


def test_loopback_is_allowed_by_the_setting_alone_and_nothing_else_with_it() -> None:
    guard = Guard(allow_loopback=True)
    assert guard.allows("127.0.0.1")
    assert guard.allows("::1")
    assert not guard.allows("169.254.169.254")
    assert not Guard().allows("127.0.0.1")


def test_a_refused_address_is_remembered_for_the_fetch_that_met_it() -> None:
    with watching() as refused, pytest.raises(AddressBlocked):
        Guard().open_socket((socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 80)))
    assert refused == ["10.0.0.1"]
    with pytest.raises(AddressBlocked):
        Guard(allow_loopback=True).open_socket((socket.AF_UNIX, socket.SOCK_STREAM, 0, "", ("/run/x",)))


async def test_name_servers_that_hang_leave_the_threads_of_everybody_else_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answered = threading.Event()

    def hang(host: str, port: int, *rest: object, **more: object) -> list[tuple[object, ...]]:
        answered.wait(30)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", port))]

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    resolver = GuardedResolver(Guard())
    lookups = [asyncio.create_task(resolver.resolve(f"{n}.example", 80)) for n in range(64)]
    await asyncio.sleep(0)
    try:
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "written"), 5) == "written"
        assert not any(lookup.done() for lookup in lookups)
    finally:
        answered.set()
    for found in await asyncio.gather(*lookups):
        assert [(each["host"], each["port"]) for each in found] == [("8.8.8.8", 80)]
    await resolver.close()


async def test_a_name_of_this_machine_is_refused_when_it_is_resolved() -> None:
    resolver = GuardedResolver(Guard())
    with pytest.raises(AddressBlocked):
        await resolver.resolve("localhost", 80)
    await resolver.close()
