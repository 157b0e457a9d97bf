"""Give a queue of their own inside of gRPC to the methods that need one, and to no other.

gRPC lets the calls of each method that is registered by name wait in a queue of its own; those of all others
share one. Each queue more is looked at for every call that any of them gets: what it costs with dozens of
methods is a tenth of a cheap call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import grpc


class OwnQueues:
    """Be a server to what adds servicers; `methods` (`/package.Service/Method`) get queues of their own."""

    def __init__(self, server: grpc.aio.Server, methods: Collection[str]) -> None:
        self._server = server
        self._methods = frozenset(methods)

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Add handlers whose calls share the one queue."""
        self._server.add_generic_rpc_handlers(generic_rpc_handlers)

    def add_registered_method_handlers(
        self, service_name: str, method_handlers: Mapping[str, grpc.RpcMethodHandler[Any, Any]]
    ) -> None:
        """Add those of the handlers that get queues of their own; gRPC prefers them to the shared ones."""
        own = {
            name: handler
            for name, handler in method_handlers.items()
            if f"/{service_name}/{name}" in self._methods
        }
        if own:
            self._server.add_registered_method_handlers(service_name, own)
