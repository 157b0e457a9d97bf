"""Fixtures of the ingest tests: the real server, a spider with its key, a raw signed call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from frontrow.client import AsyncSpiderClient, sign
from frontrow.ingest.v1 import (
    gallery_pb2,
    ingest_service_pb2,
    ingest_service_pb2_grpc,
    ingest_work_service_pb2_grpc,
)

from libs.common.client import connect
from libs.common.settings import (
    CommonSettings,
    DatabaseSettings,
    PeerSettings,
    StoreSettings,
    TelemetrySettings,
    TransportSettings,
)
from services.ingest.mount import mount
from services.ingest.settings import IngestSettings
from services.ingest.worker.decode import Decoder
from services.ingest.worker.settings import IngestWorkerSettings
from tests.conftest import Serve
from tests.integration.ingest.site import Site, image_site
from tests.integration.objects.servers import moto_endpoint, seaweedfs_endpoint, store_url

if TYPE_CHECKING:
    from tests.integration.ingest.chain import Chain
    from tests.integration.ingest.runs import Run

SEALING_KEY = "5e" * 32
STORES = ("local", "moto", "seaweedfs")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--store`, to run the whole chain over another store than a folder."""
    parser.addoption("--store", choices=STORES, default=STORES[0], help="the store of the ingest chain")


def common_settings(database_url: str, store: Path | str = "unused", **addresses: str) -> CommonSettings:
    """Return settings with everything beyond the database and the peers at its default."""
    return CommonSettings(
        database=DatabaseSettings(url=database_url),
        transport=TransportSettings(),
        peers=PeerSettings(**addresses),
        store=StoreSettings(object_store=str(store)),
        telemetry=TelemetrySettings(),
    )


def ingest_settings(**changes: object) -> IngestSettings:
    """Return settings of a server whose sealing key is fixed."""
    values: dict[str, object] = {"sealing_key": SEALING_KEY, "follow_interval_seconds": 0.2}
    return IngestSettings(**(values | changes))  # type: ignore[arg-type]


def gallery(*urls: str, url: str = "https://vogue.example/show", **changes: object) -> gallery_pb2.Gallery:
    """Return a runway gallery of some images."""
    values: dict[str, object] = {
        "kind": gallery_pb2.GALLERY_KIND_RUNWAY,
        "title": "Gucci — Look 一",
        "source": "vogue",
        "source_url": url,
        "brand": "Gucci",
        "season_code": "FW26",
    }
    images = [gallery_pb2.GalleryImage(url=each) for each in urls or ("https://img.example/1.jpg",)]
    return gallery_pb2.Gallery(images=images, **(values | changes))  # type: ignore[arg-type]


@dataclass
class Ingest:
    """The server under test, seen by a client."""

    address: str
    key_id: str = ""
    secret: str = ""
    spider_id: str = ""
    stub: ingest_service_pb2_grpc.IngestServiceStub = field(init=False)
    work: ingest_work_service_pb2_grpc.IngestWorkServiceStub = field(init=False)

    def __post_init__(self) -> None:
        self.channel = connect(self.address)
        self.stub = ingest_service_pb2_grpc.IngestServiceStub(self.channel)
        self.work = ingest_work_service_pb2_grpc.IngestWorkServiceStub(self.channel)

    async def make_spider(self, name: str) -> None:
        """Make a spider and sign as it from now on."""
        request = ingest_service_pb2.CreateSpiderRequest(name=name)
        made = await self.stub.CreateSpider(request)
        self.key_id, self.secret, self.spider_id = made.key_id, made.secret, made.spider.spider_id

    async def call(
        self,
        request: ingest_service_pb2.SubmitGalleryRequest,
        metadata: tuple[tuple[str, str], ...] | None = None,
        *,
        now: float | None = None,
    ) -> ingest_service_pb2.SubmitGalleryResponse:
        """Submit once, signed by hand unless `metadata` is given."""
        signed = metadata or sign(
            request.SerializeToString(), key_id=self.key_id, secret=self.secret, now=now
        )
        return await self.stub.SubmitGallery(request, metadata=signed)

    def client(self, deadline_seconds: float = 10.0) -> AsyncSpiderClient:
        """Return the library's client."""
        return AsyncSpiderClient(
            self.address, key_id=self.key_id, secret=self.secret, deadline_seconds=deadline_seconds
        )


@pytest.fixture
async def ingest(serve: Serve, database_url: str, request: pytest.FixtureRequest) -> AsyncIterator[Ingest]:
    """Give an ingest server alone (its task service is out of reach) and a spider of the test's own."""
    common = common_settings(database_url, task_address="127.0.0.1:9")
    found = Ingest(await serve("ingest", await mount(ingest_settings(), common)))
    await found.make_spider(request.node.name[-64:])
    yield found
    await found.channel.close()


@pytest.fixture
async def slow_lane(serve: Serve, database_url: str, request: pytest.FixtureRequest) -> AsyncIterator[Ingest]:
    """Give a server that lets a key make three calls at once and one each two seconds, and a spider."""
    common = common_settings(database_url, task_address="127.0.0.1:9")
    settings = ingest_settings(key_calls_per_second=0.5, key_burst=3)
    found = Ingest(await serve("ingest", await mount(settings, common)))
    await found.make_spider(request.node.name[-64:])
    yield found
    await found.channel.close()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """Give an image site of the test's own."""
    async with image_site() as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder of the objects: the module's, as its database is."""
    return tmp_path_factory.mktemp("chain")


@pytest.fixture(scope="module")
async def decoder() -> AsyncIterator[Decoder]:
    """Give decoding processes that the module's workers share."""
    running = Decoder(IngestWorkerSettings(decoders=2, thumbnail_widths=(24,)))
    yield running
    await running.close()


@pytest.fixture(scope="module")
def lease_seconds() -> float:
    """Give the lease of the module's tasks: longer than any pause of a busy machine."""
    return 60.0


@pytest.fixture(scope="module")
def store(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """Give the URL of the module's store: a folder, or an S3 server as `--store` says."""
    kind = request.config.getoption("--store", default=STORES[0])
    with ExitStack() as stack:
        if kind == "moto":
            yield store_url(stack.enter_context(moto_endpoint()), "chain")
        elif kind == "seaweedfs":
            (folder / "weed").mkdir()
            yield store_url(stack.enter_context(seaweedfs_endpoint(folder / "weed")), "chain")
        else:
            yield str(folder / "objects")


@pytest.fixture(scope="module")
async def servers(database_url: str, store: str, lease_seconds: float) -> AsyncIterator[CommonSettings]:
    """Give running servers of task, review and ingest, the module's as its database is."""
    from tests.integration.ingest.chain import running_servers, task_settings

    async with running_servers(database_url, store, task_settings(lease_seconds)) as common:
        yield common


@pytest.fixture
async def chain(
    servers: CommonSettings, folder: Path, decoder: Decoder, request: pytest.FixtureRequest
) -> AsyncIterator[Chain]:
    """Give the whole chain: spider, image site and workers are the test's own."""
    from tests.integration.ingest.chain import running_chain

    async with running_chain(servers, folder, decoder, request.node.name) as running:
        yield running


@pytest.fixture
def article(request: pytest.FixtureRequest) -> str:
    """Give an address of an article that no other test uses."""
    return f"https://vogue.example/{request.node.name}"


@pytest.fixture
async def run(ingest: Ingest) -> Run:
    """Give a job of two images and the calls of its runs."""
    from tests.integration.ingest.runs import Run

    message = gallery("https://a/1.jpg", "https://a/2.jpg")
    made = await ingest.call(ingest_service_pb2.SubmitGalleryRequest(gallery=message))
    request = ingest_service_pb2.GetIngestJobRequest(job_id=made.job_id)
    return Run(ingest, (await ingest.stub.GetIngestJob(request)).job)
