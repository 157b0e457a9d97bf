"""What an operator does with buf curl (or grpcurl), against every server, by reflection alone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.process import Process

BUF = Path(sys.executable).with_name("buf")
SERVICES = {
    "task": ["frontrow.task.v1.TaskService"],
    "ingest": ["frontrow.ingest.v1.IngestService", "frontrow.ingest.v1.IngestWorkService"],
    "review": [
        "frontrow.review.v1.CatalogService",
        "frontrow.review.v1.DraftService",
        "frontrow.review.v1.IntakeService",
        "frontrow.review.v1.KeyService",
        "frontrow.review.v1.MediaService",
    ],
    "asr": [
        "frontrow.asr.v1.LiveMaterialService",
        "frontrow.asr.v1.SlicingService",
        "frontrow.asr.v1.TranscriptionService",
        "frontrow.asr.v1.VideoProjectService",
    ],
}


def curl(*arguments: str) -> str:
    done = subprocess.run(
        [str(BUF), "curl", "--protocol", "grpc", "--http2-prior-knowledge", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("context", sorted(SERVICES))
def test_every_server_lists_its_services_and_is_well(instance: Process, context: str) -> None:
    address = f"http://{instance.addresses()[context]}"
    listed = curl("--list-services", address).split()
    assert {*SERVICES[context], "grpc.health.v1.Health"} <= set(listed)
    for service in SERVICES[context]:
        health = curl("-d", json.dumps({"service": service}), f"{address}/grpc.health.v1.Health/Check")
        assert json.loads(health) == {"status": "SERVING"}


@pytest.mark.parametrize(
    ("context", "method", "request_"),
    [
        (
            "task",
            "frontrow.task.v1.TaskService/ListTasks",
            {"statuses": ["TASK_STATUS_FAILED"], "page_size": 20},
        ),
        ("task", "frontrow.task.v1.TaskService/RequeueStaleTasks", {"type": "asr", "older_than": "30s"}),
        ("ingest", "frontrow.ingest.v1.IngestService/ListIngestJobs", {"source": "vogue"}),
        ("review", "frontrow.review.v1.CatalogService/ListRunways", {}),
        ("asr", "frontrow.asr.v1.LiveMaterialService/ListLiveMaterials", {"keywords": "利率 债券 | 股票"}),
    ],
)
def test_calls_that_operations_makes_work_by_reflection(
    instance: Process, context: str, method: str, request_: dict[str, object]
) -> None:
    answer = curl("-d", json.dumps(request_), f"http://{instance.addresses()[context]}/{method}")
    assert isinstance(json.loads(answer), dict)
