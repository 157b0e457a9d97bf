"""Choose how a connection is secured: TLS where configured, local credentials on loopback, else loudly not.

Call credentials (tokens) are only sent over a connection gRPC deems private. Loopback with local credentials
is one; a network address without TLS is not, and has to be allowed by a setting that shows in the log.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path

import grpc
import structlog

from libs.common.settings import TransportSettings

log = structlog.get_logger(__name__)

_REFUSAL = (
    "{address} is not a loopback address: set FRONTROW_TLS_CERT and FRONTROW_TLS_KEY on servers and "
    "FRONTROW_TLS_CA on clients, or FRONTROW_INSECURE_PLAINTEXT=1 on a network you trust"
)


class InsecureTransport(ValueError):
    """Refuse an address that would be served or called in plaintext without permission."""


def is_loopback(target: str) -> bool:
    """Tell whether a target (`host:port`, `dns:///host:port`, `unix:path`) stays on this machine."""
    if target.startswith(("unix:", "unix-abstract:")):
        return True
    host = target.rsplit("/", 1)[-1].rpartition(":")[0].strip("[]")
    if host.startswith(("ipv4:", "ipv6:", "dns:")):
        host = host.partition(":")[2].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def server_credentials(address: str, transport: TransportSettings) -> grpc.ServerCredentials | None:
    """Return what a server at `address` listens with, None for permitted plaintext.

    Raises:
        InsecureTransport: the address is no loopback one and nothing permits plaintext.
    """
    if transport.tls_cert is not None and transport.tls_key is not None:
        pair = (transport.tls_key.read_bytes(), transport.tls_cert.read_bytes())
        return grpc.ssl_server_credentials([pair])
    if is_loopback(address):
        return grpc.local_server_credentials(_connect_type(address))
    _permit_plaintext(address, transport)
    return None


def channel_credentials(target: str, transport: TransportSettings) -> grpc.ChannelCredentials | None:
    """Return what a client calls `target` with, None for permitted plaintext.

    Beyond loopback TLS is the default (with the system's roots unless `tls_ca` names others).
    """
    if transport.tls_ca is not None:
        return grpc.ssl_channel_credentials(_read(transport.tls_ca))
    if is_loopback(target):
        return grpc.local_channel_credentials(_connect_type(target))
    if transport.insecure_plaintext:
        _permit_plaintext(target, transport)
        return None
    return grpc.ssl_channel_credentials()


def _connect_type(address: str) -> grpc.LocalConnectionType:
    return grpc.LocalConnectionType.UDS if address.startswith("unix") else grpc.LocalConnectionType.LOCAL_TCP


def _permit_plaintext(address: str, transport: TransportSettings) -> None:
    if not transport.insecure_plaintext:
        raise InsecureTransport(_REFUSAL.format(address=address))
    advice = "anyone on this network can read and forge calls"
    log.warning("transport.plaintext", address=address, advice=advice)


def _read(path: Path) -> bytes:
    return path.read_bytes()
