"""The table of who may call what names every method, and nothing else."""

import importlib
import pkgutil
from collections.abc import Iterator

import frontrow.asr.v1
import frontrow.ingest.v1
import frontrow.review.v1
import frontrow.task.v1
from google.protobuf.descriptor import FileDescriptor
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from libs.common.access import ANYONE
from services.access import ROLES, RULES

_PACKAGES = (frontrow.task.v1, frontrow.review.v1, frontrow.asr.v1, frontrow.ingest.v1)


def _files() -> Iterator[FileDescriptor]:
    yield health_pb2.DESCRIPTOR
    yield reflection_pb2.DESCRIPTOR
    for package in _PACKAGES:
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if module.name.endswith("_service_pb2"):
                yield importlib.import_module(module.name).DESCRIPTOR


def _methods() -> set[str]:
    return {
        f"/{service.full_name}/{method.name}"
        for file in _files()
        for service in file.services_by_name.values()
        for method in service.methods
    }


def test_every_method_that_a_server_has_is_in_the_table_and_no_other():
    assert set(RULES.table) == _methods()


def test_only_known_roles_are_named():
    named = frozenset().union(*(roles for roles in RULES.table.values() if roles != ANYONE))
    assert named <= set(ROLES)


def test_what_anybody_may_call_is_health_the_public_catalogue_and_what_carries_a_signature():
    services = {method.split("/")[1] for method, roles in RULES.table.items() if roles == ANYONE}
    assert services == {
        "grpc.health.v1.Health",
        "frontrow.review.v1.CatalogService",
        "frontrow.ingest.v1.IngestService",
    }
    ingest = {method for method, roles in RULES.table.items() if roles == ANYONE and "Ingest" in method}
    assert ingest == {"/frontrow.ingest.v1.IngestService/SubmitGallery"}
