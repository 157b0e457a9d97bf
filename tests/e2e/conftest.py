"""A real instance for the tests of this folder."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from demo.site import ImageSite
from libs.common.postgres_place import remove_data
from libs.common.testing import Template, TestCluster
from tests.e2e.process import Process


@contextmanager
def _new_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="frontrow-e2e-"))
    folder.chmod(0o755)
    try:
        yield folder / "data"
    finally:
        remove_data(folder / "data" / "postgres")
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
async def instance(postgres: TestCluster, migrated_template: Template) -> AsyncIterator[Process]:
    """Give one running instance to all tests that only talk to it; its PostgreSQL is that of the run."""
    async with postgres.database(migrated_template) as url:
        with _new_folder() as data_dir:
            settings = {"FRONTROW_INGEST_WORKER_ALLOW_LOOPBACK": "true", "FRONTROW_DATABASE_URL": url}
            running = Process(data_dir, settings).start()
            yield running
            assert running.stop() == 0


@pytest.fixture
def new_data_dir() -> Iterator[Path]:
    """Give an empty data folder that PostgreSQL's user can enter."""
    with _new_folder() as data_dir:
        yield data_dir


@pytest.fixture(scope="module")
def data_dir() -> Iterator[Path]:
    """Give a data folder that the module's tests use one after the other: the first one finds it empty."""
    with _new_folder() as data_dir:
        yield data_dir


@pytest.fixture
async def site() -> AsyncIterator[ImageSite]:
    """Serve the sample photographs."""
    images = ImageSite()
    await images.start()
    yield images
    await images.stop()
