"""Which addresses may be served and called without TLS, and that TLS works where it is configured."""

import asyncio

import grpc
import pytest
import structlog
from frontrow.worker import Dial

from libs.common import health_probe
from libs.common.client import connect
from libs.common.credentials import InsecureTransport, is_loopback
from libs.common.dial import dial
from libs.common.settings import TransportSettings
from tests.wire.common.authority import Authority
from tests.wire.common.probe import Probe, Request, Response, failure, stub_on


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("127.0.0.1:7104", True),
        ("127.8.8.8:1", True),
        ("localhost:7104", True),
        ("[::1]:7104", True),
        ("dns:///127.0.0.1:7104", True),
        ("ipv4:127.0.0.1:7104", True),
        ("unix:/run/x.sock", True),
        ("0.0.0.0:7104", False),
        ("[::]:7104", False),
        ("10.0.0.1:7104", False),
        ("localhost.example.com:7104", False),
        ("dns:///task:7104", False),
        ("127.0.0.1.example.com:1", False),
    ],
)
def test_loopback_is_recognised(address, loopback):
    assert is_loopback(address) is loopback


async def test_another_address_is_refused_without_tls_or_permission():
    server = Probe().server("0.0.0.0:0", transport=TransportSettings())
    with pytest.raises(InsecureTransport, match="FRONTROW_INSECURE_PLAINTEXT"):
        await server.start()


async def test_permitted_plaintext_works_and_is_loud():
    transport = TransportSettings(insecure_plaintext=True)
    with structlog.testing.capture_logs() as logs:
        async with Probe().serving(address="0.0.0.0:0", transport=transport) as stub:
            port = stub.address.rpartition(":")[2]
            channel = connect(f"127.0.0.1:{port}", transport=transport)
            assert (await stub_on(channel).Ask(Request(text="x"), timeout=5)).text == "x"
            await channel.close()
    assert ("warning", "transport.plaintext") in {(entry["log_level"], entry["event"]) for entry in logs}


async def test_half_of_a_key_pair_is_refused(tmp_path):
    with pytest.raises(ValueError, match="FRONTROW_TLS_KEY"):
        TransportSettings(tls_cert=tmp_path / "a.pem")


async def test_tls_is_used_where_it_is_configured(tmp_path, monkeypatch):
    ca = Authority(tmp_path)
    certificate, key = ca.issue("server")
    transport = TransportSettings(tls_cert=certificate, tls_key=key, tls_ca=ca.roots)
    server = Probe().server("127.0.0.1:0", transport=transport)
    address = await server.start()
    channel = connect(address, transport=transport)
    assert (await stub_on(channel).Ask(Request(text="x"), timeout=5)).text == "x"
    async with grpc.aio.insecure_channel(address) as plain:
        assert (await failure(stub_on(plain).Ask(Request(), timeout=5))).code() is grpc.StatusCode.UNAVAILABLE
    async with dial(address, transport).aio() as a_workers:
        assert (await stub_on(a_workers).Ask(Request(text="x"), timeout=5)).text == "x"
    assert await asyncio.to_thread(health_probe.main, address) == 1
    monkeypatch.setenv("FRONTROW_TLS_CA", str(ca.roots))
    assert await asyncio.to_thread(health_probe.main, address) == 0
    await channel.close()
    await server.stop(grace_seconds=0)


def test_a_worker_is_told_to_use_tls_beyond_this_machine_unless_plaintext_is_permitted():
    assert dial("127.0.0.1:7104", TransportSettings()).credentials is not None
    far, permitted = "task:7104", TransportSettings(insecure_plaintext=True)
    assert dial(far, TransportSettings()).credentials is not None
    assert (dial(far, permitted).credentials, dial(far, permitted).plaintext) == (None, True)


async def test_a_proxy_for_the_web_is_not_asked_for_peers(monkeypatch):
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "no_grpc_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    async with Probe().serving() as stub:
        assert (await stub.Ask(Request(text="x"), timeout=5)).text == "x"
        async with Dial(stub.address).aio() as a_workers:
            assert (await stub_on(a_workers).Ask(Request(text="x"), timeout=5)).text == "x"


async def test_call_credentials_travel_over_loopback():
    """A token is only attached to a connection gRPC deems private."""
    seen = []

    async def ask(_request, context):
        seen.extend(value for key, value in context.invocation_metadata() if key == "authorization")
        return Response()

    async with Probe(ask=ask).serving() as stub:
        await stub.Ask(Request(), timeout=5, credentials=grpc.access_token_call_credentials("t0ken"))
    assert seen == ["Bearer t0ken"]
