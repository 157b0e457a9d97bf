"""An ingest server in a process of its own, and a spider that may submit to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import grpc
import pytest
from frontrow.client import sign
from frontrow.ingest.v1 import ingest_service_pb2, ingest_service_pb2_grpc
from frontrow.worker import Dial

from services.ingest.servicer import SUBMIT_METHOD
from tests.bench.processes import Server, context_server


@dataclass(frozen=True)
class Spider:
    """A spider before a server whose process is looked at."""

    pid: int
    key_id: str
    secret: str
    channel: grpc.Channel

    def sign(self, raw: bytes, **instead: object) -> tuple[tuple[str, str], ...]:
        """Return the metadata of a call, signed by the spider's key but for what is given."""
        return sign(raw, **{"key_id": self.key_id, "secret": self.secret, **instead})  # type: ignore[arg-type]

    def submit(
        self, raw: bytes, metadata: tuple[tuple[str, str], ...]
    ) -> ingest_service_pb2.SubmitGalleryResponse:
        """Send bytes as a submission."""
        call = self.channel.unary_unary(
            SUBMIT_METHOD, response_deserializer=ingest_service_pb2.SubmitGalleryResponse.FromString
        )
        answer: ingest_service_pb2.SubmitGalleryResponse = call(raw, metadata=metadata, timeout=30)
        return answer


@pytest.fixture(scope="module")
async def server(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """Give an ingest server that lets a key call as often as it likes."""
    async with context_server(
        database_url,
        log=tmp_path_factory.mktemp("ingest") / "log",
        module="services.ingest",
        context="ingest",
        FRONTROW_INGEST_SEALING_KEY="5e" * 32,
        FRONTROW_INGEST_KEY_BURST="1000000",
        FRONTROW_TASK_ADDRESS="127.0.0.1:9",  # nobody there: the jobs wait
    ) as running:
        yield running


@pytest.fixture(scope="module")
def spider(server: Server) -> Iterator[Spider]:
    """Give a spider of the server."""
    with Dial(server.address).sync() as channel:
        stub = ingest_service_pb2_grpc.IngestServiceStub(channel)
        made = stub.CreateSpider(ingest_service_pb2.CreateSpiderRequest(name="wire"), timeout=30)
        yield Spider(server.pid, made.key_id, made.secret, channel)
