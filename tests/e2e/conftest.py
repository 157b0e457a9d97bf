"""A real instance for the tests of this folder."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from demo.site import ImageSite
from libs.common.postgres_place import remove_data
from tests.e2e.process import Process


@pytest.fixture(scope="session")
def instance() -> Iterator[Process]:
    """Give one running instance to all tests that only talk to it."""
    folder = Path(tempfile.mkdtemp(prefix="frontrow-e2e-"))
    folder.chmod(0o755)
    running = Process(folder / "data", {"FRONTROW_INGEST_WORKER_ALLOW_LOOPBACK": "true"}).start()
    yield running
    status = running.stop()
    remove_data(folder / "data" / "postgres")
    shutil.rmtree(folder)
    assert status == 0


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """Give an empty data folder that PostgreSQL's user can enter."""
    folder = Path(tempfile.mkdtemp(prefix="frontrow-e2e-"))
    folder.chmod(0o755)
    yield folder / "data"
    remove_data(folder / "data" / "postgres")
    shutil.rmtree(folder)


@pytest.fixture
async def site() -> AsyncIterator[ImageSite]:
    """Serve the sample photographs."""
    images = ImageSite()
    await images.start()
    yield images
    await images.stop()
