"""Ask a server's health, e.g. from a container: `python -m libs.common.health_probe HOST:PORT`.

Speaks TLS where FRONTROW_TLS_CA is set; HOST must then be a name of the server's certificate. Sends no token:
health is told to anybody, and a process's token isn't taken at the address for people.
"""

import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from libs.common.credentials import channel_credentials
from libs.common.settings import TransportSettings

_SECONDS = 3.0
# A server of ours is never behind the proxy that a machine uses for the web.
_OPTIONS = (("grpc.enable_http_proxy", 0),)


def main(address: str) -> int:
    """Return 0 when the server is serving, 1 when not, and say why."""
    with _channel(address) as channel:
        try:
            check = health_pb2_grpc.HealthStub(channel).Check  # type: ignore[attr-defined]  # untyped stub
            status = check(health_pb2.HealthCheckRequest(), timeout=_SECONDS).status
        except grpc.RpcError as error:
            sys.stderr.write(f"{address}: {error}\n")
            return 1
    if status != health_pb2.HealthCheckResponse.SERVING:
        sys.stderr.write(f"{address}: {health_pb2.HealthCheckResponse.ServingStatus.Name(status)}\n")
        return 1
    return 0


def _channel(address: str) -> grpc.Channel:
    credentials = channel_credentials(address, TransportSettings().model_copy(update={"token_file": None}))
    if credentials is None:
        return grpc.insecure_channel(address, options=_OPTIONS)
    return grpc.secure_channel(address, credentials, options=_OPTIONS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
