"""RPCs of IngestService for administrators: spiders and their keys."""

from __future__ import annotations

import secrets
from itertools import groupby
from uuid import UUID

from frontrow.ingest.v1 import ingest_service_pb2
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.ids import uuid7
from libs.common.interceptors.call import ServicerContext
from libs.common.paging import decode_token, encode_token, page_size, within_budget
from services.ingest import convert, repository_spider
from services.ingest.errors import KeyNotFound, RequestIdReused, SpiderExists, SpiderNotFound, TwoKeysWork
from services.ingest.parts import Rpcs

_KEY_ID_BYTES = 9
_SECRET_BYTES = 32
MAX_WORKING_KEYS = 2


class SpiderRpcs(Rpcs):
    """Make and list spiders; the part of IngestService that administrators use."""

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

    async def _add_key(self, session: AsyncSession, spider_id: UUID, request_id: str = "") -> tuple[str, str]:
        """Add a key and return its id and secret; the secret exists outside of its box here alone."""
        key_id = f"fk_{secrets.token_hex(_KEY_ID_BYTES)}"
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        sealed = self._parts.sealer.seal(key_id, secret)
        await repository_spider.add_key(session, spider_id, key_id, sealed, request_id)
        return key_id, secret

    async def RotateSpiderKey(
        self, request: ingest_service_pb2.RotateSpiderKeyRequest, context: ServicerContext
    ) -> ingest_service_pb2.RotateSpiderKeyResponse:
        """Give a spider another key beside the one that works."""
        spider_id, secret = UUID(request.spider_id), ""
        async with self._database.begin() as session:
            # locked: two rotations at once must not make a third key
            row = await repository_spider.get(session, spider_id, lock=True)
            if row is None:
                raise SpiderNotFound(f"no spider {request.spider_id}")
            key_id = await repository_spider.key_of_request(session, spider_id, request.request_id)
            created = key_id is None
            if key_id is None:
                await self._check_room(session, spider_id)
                key_id, secret = await self._add_key(session, spider_id, request.request_id)
            keys = await repository_spider.keys_of(session, [spider_id])
        spider = convert.spider_message(row, keys)
        return ingest_service_pb2.RotateSpiderKeyResponse(
            spider=spider, key_id=key_id, secret=secret, created=created
        )

    async def _check_room(self, session: AsyncSession, spider_id: UUID) -> None:
        keys = await repository_spider.keys_of(session, [spider_id])
        working = [key.key_id for key in keys if key.revoked_at is None]
        if len(working) >= MAX_WORKING_KEYS:
            raise TwoKeysWork(
                f"{MAX_WORKING_KEYS} keys of this spider work already: revoke the one it no longer uses",
                key_ids=",".join(working),
            )

    async def RevokeSpiderKey(
        self, request: ingest_service_pb2.RevokeSpiderKeyRequest, context: ServicerContext
    ) -> ingest_service_pb2.RevokeSpiderKeyResponse:
        """Let a key work no more; again changes nothing."""
        async with self._database.begin() as session:
            spider_id = await repository_spider.revoke(session, request.key_id)
            if spider_id is None:
                raise KeyNotFound(f"no key {request.key_id!r}")
            row = await repository_spider.get(session, spider_id)
            keys = await repository_spider.keys_of(session, [spider_id])
        assert row is not None
        return ingest_service_pb2.RevokeSpiderKeyResponse(spider=convert.spider_message(row, keys))

    async def ListSpiders(
        self, request: ingest_service_pb2.ListSpidersRequest, context: ServicerContext
    ) -> ingest_service_pb2.ListSpidersResponse:
        """List spiders by name."""
        size = page_size(request.page_size)
        position = decode_token(request.page_token, request, str)
        after = position[0] if position else None
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
