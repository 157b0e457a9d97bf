"""RPCs of IngestService for administrators: spiders and their keys."""

from __future__ import annotations

import secrets
from itertools import groupby
from uuid import UUID

from frontrow.ingest.v1 import ingest_service_pb2, ingest_service_pb2_grpc
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.db import Database
from libs.common.ids import uuid7
from libs.common.interceptors.call import ServicerContext
from libs.common.paging import decode_token, encode_token, page_size, within_budget
from services.ingest import convert, repository_spider
from services.ingest.errors import RequestIdReused, SpiderExists
from services.ingest.sealing import Sealer

_KEY_ID_BYTES = 9
_SECRET_BYTES = 32


class SpiderRpcs(ingest_service_pb2_grpc.IngestServiceServicer):
    """Make and list spiders; the part of IngestService that administrators use."""

    def __init__(self, database: Database, sealer: Sealer) -> None:
        self._database = database
        self._sealer = sealer

    async def CreateSpider(
        self, request: ingest_service_pb2.CreateSpiderRequest, context: ServicerContext
    ) -> ingest_service_pb2.CreateSpiderResponse:
        """Make a spider with its first key, or find the one made under the request id."""
        name = request.name.strip()
        async with self._database.begin() as session:
            spider_id = uuid7()
            if not await repository_spider.add(session, spider_id, name, request.request_id):
                return await self._first_answer(session, name, request.request_id)
            key_id, secret = await self._add_key(session, spider_id)
            row = await repository_spider.get(session, spider_id)
            keys = await repository_spider.keys_of(session, [spider_id])
        assert row is not None
        return ingest_service_pb2.CreateSpiderResponse(
            spider=convert.spider_message(row, keys), key_id=key_id, secret=secret, created=True
        )

    async def _first_answer(
        self, session: AsyncSession, name: str, request_id: str
    ) -> ingest_service_pb2.CreateSpiderResponse:
        row = await repository_spider.of_request(session, request_id)
        if row is None:
            raise SpiderExists(f"a spider named {name!r} exists: choose another name")
        if row.name != name:
            raise RequestIdReused("this request_id made another spider: use a new one for each call")
        keys = await repository_spider.keys_of(session, [row.id])
        return ingest_service_pb2.CreateSpiderResponse(
            spider=convert.spider_message(row, keys), key_id=keys[-1].key_id, created=False
        )

    async def _add_key(self, session: AsyncSession, spider_id: UUID) -> tuple[str, str]:
        """Add a key and return its id and secret; the secret exists outside of its box here alone."""
        key_id = f"fk_{secrets.token_hex(_KEY_ID_BYTES)}"
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        await repository_spider.add_key(session, spider_id, key_id, self._sealer.seal(key_id, secret))
        return key_id, secret

    async def ListSpiders(
        self, request: ingest_service_pb2.ListSpidersRequest, context: ServicerContext
    ) -> ingest_service_pb2.ListSpidersResponse:
        """List spiders by name."""
        size = page_size(request.page_size)
        position = decode_token(request.page_token, request)
        after = str(position[0]) if position else None
        async with self._database.begin() as session:
            rows = await repository_spider.listed(session, after=after, limit=size + 1)
            keys = await repository_spider.keys_of(session, [row.id for row in rows])
        by_spider = {
            spider_id: list(own)
            for spider_id, own in groupby(sorted(keys, key=lambda k: k.spider_id), lambda k: k.spider_id)
        }
        spiders = within_budget(convert.spider_message(row, by_spider.get(row.id, ())) for row in rows[:size])
        token = encode_token([spiders[-1].name], request) if len(rows) > len(spiders) else ""
        return ingest_service_pb2.ListSpidersResponse(spiders=spiders, next_page_token=token)
