"""Submissions for tests, how they are refused, and what they leave in the database."""

from __future__ import annotations

from uuid import UUID

import grpc
import pytest
from frontrow.ingest.v1 import ingest_service_pb2
from sqlalchemy import func, select

from libs.common.client import error_info
from libs.common.db import Database
from tests.integration.ingest.conftest import gallery


def submission(request_id: str = "", **changes: object) -> ingest_service_pb2.SubmitGalleryRequest:
    """Return a submission of a gallery."""
    return ingest_service_pb2.SubmitGalleryRequest(gallery=gallery(**changes), request_id=request_id)  # type: ignore[arg-type]


async def refusal(awaitable: object) -> tuple[grpc.StatusCode, str, dict[str, str]]:
    """Await a call that is refused; return code, reason and metadata of the refusal."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await awaitable  # type: ignore[misc]
    found = error_info(caught.value)
    return found.code, found.reason, found.metadata


async def count(database: Database, table: object, spider_id: str) -> int:
    """Return how many rows of a table belong to a spider."""
    async with database.begin() as session:
        query = select(func.count()).where(table.c.spider_id == UUID(spider_id))  # type: ignore[attr-defined]
        return (await session.execute(query)).scalar_one()
