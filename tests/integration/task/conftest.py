"""Fixtures of the task tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.conftest import Serve
from tests.integration.task.service import Tasks, serve_task


@pytest.fixture(scope="module")
async def address(serve_module: Serve, database_url: str) -> str:
    """Give the address of a server with the default settings, this module's own."""
    return await serve_task(serve_module, database_url)


@pytest.fixture(scope="module")
async def tasks(address: str) -> AsyncIterator[Tasks]:
    """Give a client of the module's server."""
    client = Tasks(address)
    yield client
    await client.close()
