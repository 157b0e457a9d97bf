"""Every method that a server has, by its descriptor."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass

import frontrow.asr.v1
import frontrow.ingest.v1
import frontrow.review.v1
import frontrow.task.v1
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from services.access import RULES

PACKAGES = (frontrow.task.v1, frontrow.review.v1, frontrow.asr.v1, frontrow.ingest.v1)
# They last as long as their caller likes.
WAITING = frozenset({"ClaimTasks", "WatchTasks", "Watch", "ServerReflectionInfo"})


@dataclass(frozen=True)
class Method:
    """A method: its full name, its messages, which sides are streams, the context whose server has it."""

    path: str
    request: Descriptor
    response: Descriptor
    client_streams: bool
    server_streams: bool

    @property
    def context(self) -> str:
        """The context that serves it; what every server has is asked of the first."""
        package = self.path.split(".")
        return package[1] if package[0] == "/frontrow" else "task"

    @property
    def name(self) -> str:
        """Its name without the service's."""
        return self.path.rpartition("/")[2]

    @property
    def waits(self) -> bool:
        """Whether it may last until its caller's deadline."""
        return self.name in WAITING


def every_method() -> list[Method]:
    """Return all methods of the table of who may call what, which a test keeps complete."""
    _import_descriptors()
    pool = descriptor_pool.Default()
    found = []
    for path in sorted(RULES.table):
        service, _, name = path.lstrip("/").partition("/")
        described = pool.FindServiceByName(service).methods_by_name[name]
        streams = described.client_streaming, described.server_streaming
        found.append(Method(path, described.input_type, described.output_type, *streams))
    return found


def _import_descriptors() -> None:
    assert health_pb2.DESCRIPTOR
    assert reflection_pb2.DESCRIPTOR
    for package in PACKAGES:
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if module.name.endswith("_service_pb2"):
                importlib.import_module(module.name)
