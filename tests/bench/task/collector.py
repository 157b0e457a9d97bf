"""A collector of spans and metrics that takes everything and keeps nothing."""

from __future__ import annotations

import asyncio
import signal
import sys

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


class Traces(trace_service_pb2_grpc.TraceServiceServicer):
    """Takes spans."""

    async def Export(self, request: object, context: object) -> trace_service_pb2.ExportTraceServiceResponse:
        """Answer that all is well."""
        return trace_service_pb2.ExportTraceServiceResponse()


class Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    """Takes metrics."""

    async def Export(
        self, request: object, context: object
    ) -> metrics_service_pb2.ExportMetricsServiceResponse:
        """Answer that all is well."""
        return metrics_service_pb2.ExportMetricsServiceResponse()


async def main() -> None:
    """Serve on the address of the command line until SIGTERM."""
    server = grpc.aio.server()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Traces(), server)  # type: ignore[no-untyped-call]
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(Metrics(), server)  # type: ignore[no-untyped-call]
    server.add_insecure_port(sys.argv[1])
    await server.start()
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    await asked.wait()
    await server.stop(1.0)


if __name__ == "__main__":
    asyncio.run(main())
