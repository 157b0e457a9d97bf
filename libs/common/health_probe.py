"""Ask a server's health, e.g. from a container: `python -m libs.common.health_probe HOST:PORT`."""

import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

_SECONDS = 3.0


def main(address: str) -> int:
    """Return 0 when the server is serving, 1 when not, and say why."""
    with grpc.insecure_channel(address) as channel:
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
