"""Where the task service is, and how to open the two channels a worker needs."""

from __future__ import annotations

from dataclasses import dataclass

import grpc
import grpc.aio

OPTIONS: tuple[tuple[str, int | str], ...] = (
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.lb_policy_name", "round_robin"),
    # A server that comes back is found again within a second, not after gRPC's two minutes.
    ("grpc.initial_reconnect_backoff_ms", 250),
    ("grpc.min_reconnect_backoff_ms", 250),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # Without it the beats' channel and the claims' channel would share one connection.
    ("grpc.use_local_subchannel_pool", 1),
)


def is_loopback(address: str) -> bool:
    """Return whether `address` (host:port) names this machine itself."""
    host = address.removeprefix("dns:///").rpartition(":")[0]
    return host in {"localhost", "[::1]"} or host.startswith("127.")


@dataclass(frozen=True, slots=True)
class Dial:
    """An address with its transport security.

    Loopback needs nothing more. Any other address takes TLS (`credentials`), or plaintext when `plaintext` is
    set on purpose.
    """

    address: str
    credentials: grpc.ChannelCredentials | None = None
    plaintext: bool = False

    def _credentials(self) -> grpc.ChannelCredentials | None:
        if self.credentials is not None:
            return self.credentials
        if self.plaintext:
            return None
        if is_loopback(self.address):
            return grpc.local_channel_credentials(grpc.LocalConnectionType.LOCAL_TCP)
        raise ValueError(
            f"{self.address} is not on this machine: give credentials, or plaintext=True on purpose"
        )

    def _options(self, *, repeats: bool) -> list[tuple[str, int | str]]:
        """Return the options; a machine's proxy for the web is not asked for the machine itself."""
        options = [*OPTIONS, ("grpc.enable_retries", int(repeats))]
        return [*options, ("grpc.enable_http_proxy", 0)] if is_loopback(self.address) else options

    def aio(self, *, repeats: bool = True) -> grpc.aio.Channel:
        """Open a channel for the running event loop.

        With `repeats` the transport sends a call again that a server went away from without a look at it.
        """
        credentials = self._credentials()
        options = self._options(repeats=repeats)
        if credentials is None:
            return grpc.aio.insecure_channel(self.address, options=options)
        return grpc.aio.secure_channel(self.address, credentials, options=options)

    def sync(self, *, repeats: bool = True) -> grpc.Channel:
        """Open a channel that may be used from any thread; `repeats` as above."""
        credentials = self._credentials()
        options = self._options(repeats=repeats)
        if credentials is None:
            return grpc.insecure_channel(self.address, options=options)
        return grpc.secure_channel(self.address, credentials, options=options)
