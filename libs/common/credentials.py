"""Choose how a connection is secured: TLS where configured, local credentials on loopback, else loudly not.

Call credentials (tokens) are only sent over a connection gRPC deems private. Loopback with local credentials
is one; a network address without TLS is not, and has to be allowed by a setting that shows in the log.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path

import grpc
import structlog

from libs.common.bearer import BearerToken
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


def server_credentials(
    address: str, transport: TransportSettings, *, certified: bool = False
) -> grpc.ServerCredentials | None:
    """Return what a server at `address` listens with, None for permitted plaintext.

    `certified` demands a certificate of `tls_client_ca` from every client. New certificates in the files are
    shown from the next connection on.

    Raises:
        InsecureTransport: the address is no loopback one and nothing permits plaintext.
    """
    if transport.tls_cert is not None:
        return _dynamic_credentials(transport, certified=certified)
    if is_loopback(address):
        return grpc.local_server_credentials(_connect_type(address))
    _permit_plaintext(address, transport)
    return None


def channel_credentials(target: str, transport: TransportSettings) -> grpc.ChannelCredentials | None:
    """Return what a client calls `target` with, None for permitted plaintext.

    Beyond loopback TLS is the default (with the system's roots unless `tls_ca` names others). The process's
    certificate is shown and its token is sent where it has them; over plaintext no token is ever sent.
    """
    secured = _secured(target, transport)
    if secured is None or transport.token_file is None:
        return secured
    token = grpc.metadata_call_credentials(BearerToken(transport.token_file), name="token")
    return grpc.composite_channel_credentials(secured, token)


def _secured(target: str, transport: TransportSettings) -> grpc.ChannelCredentials | None:
    if transport.tls_ca is not None:
        return grpc.ssl_channel_credentials(
            transport.tls_ca.read_bytes(), _read(transport.tls_key), _read(transport.tls_cert)
        )
    if is_loopback(target):
        return grpc.local_channel_credentials(_connect_type(target))
    if transport.insecure_plaintext:
        _permit_plaintext(target, transport)
        return None
    return grpc.ssl_channel_credentials(None, _read(transport.tls_key), _read(transport.tls_cert))


def _dynamic_credentials(transport: TransportSettings, *, certified: bool) -> grpc.ServerCredentials:
    """Return TLS that looks at its files at each handshake."""
    pair = ServerPair(transport)
    return grpc.dynamic_ssl_server_credentials(
        pair.first,
        pair.current,  # type: ignore[arg-type]  # the stub doesn't know that None says "as before"
        require_client_authentication=certified,
    )


class ServerPair:
    """A server's key and chain as they are in their files."""

    def __init__(self, transport: TransportSettings) -> None:
        self._files = (transport.tls_key, transport.tls_cert, transport.tls_client_ca)
        self._version = self._stamp()
        self.first = self._configuration()

    def current(self) -> grpc.ServerCertificateConfiguration | None:
        """Return what to show from now on, None for the same as before: gRPC then builds nothing anew.

        It calls this at each handshake, from threads of its own.
        """
        try:
            version = self._stamp()
            if version == self._version:
                return None
            changed, self._version = self._configuration(), version
        except OSError as error:  # a file that is just being replaced: the old pair is good for one more
            log.warning("transport.certificate_unreadable", error=str(error))
            return None
        log.info("transport.certificate_read")
        return changed

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        key, chain, roots = map(_read, self._files)
        if key is None or chain is None:
            raise ValueError("TLS needs a key and a certificate")
        return grpc.ssl_server_certificate_configuration([(key, chain)], roots)

    def _stamp(self) -> tuple[int, ...]:
        return tuple(path.stat().st_mtime_ns for path in self._files if path is not None)


def _connect_type(address: str) -> grpc.LocalConnectionType:
    return grpc.LocalConnectionType.UDS if address.startswith("unix") else grpc.LocalConnectionType.LOCAL_TCP


def _permit_plaintext(address: str, transport: TransportSettings) -> None:
    if not transport.insecure_plaintext:
        raise InsecureTransport(_REFUSAL.format(address=address))
    advice = "anyone on this network can read and forge calls"
    log.warning("transport.plaintext", address=address, advice=advice)


def _read(path: Path | None) -> bytes | None:
    return None if path is None else path.read_bytes()
