"""SQL of submissions: what many callers brought in one statement. No function commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Text, any_, delete, func, literal, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.lane import Connection
from services.ingest import statements_submit
from services.ingest.budget import Wish
from services.ingest.models import nonces, spider_keys

PURGE_BATCH = 5000


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job as it will be stored, the serialised order for its task, and the trace that it is ordered in."""

    job_id: UUID
    task_id: UUID
    request_id: str
    request_digest: bytes
    kind: str
    title: str
    source: str
    source_url: str
    gallery: bytes
    image_count: int
    task_order: bytes
    trace_parent: str


class Entry(NamedTuple):
    """A call whose signature is good; without a job it only asks whether it would be let in."""

    key_id: str
    nonce: str
    signed_at: int
    job: NewJob | None


class Limits(NamedTuple):
    """Calls a second and at most at once of a key, on all servers together, and the window of a signature."""

    per_second: float
    burst: int
    window_seconds: int


class Verdict(NamedTuple):
    """What became of an entry.

    `name` is one of accepted, known (its request id is), let_in, unknown_key, limited, skewed, replayed;
    `tokens` of the key's shared budget were granted to this server out of those `available`.
    """

    name: str
    spider_id: UUID | None
    now: float
    tokens: int
    available: float


class FirstJob(NamedTuple):
    """The job that a spider made under a request id."""

    job_id: UUID
    request_digest: bytes


async def enter(
    connection: Connection, entries: Sequence[Entry], wishes: Sequence[Wish], limits: Limits
) -> list[Verdict]:
    """Take the entries that may come in, each with nonce, job and order, in one statement (domain.md 3.1).

    `wishes` names each key of the entries once. Within one call the first entry with a nonce or a request id
    counts. Returns a verdict for each entry, in order.
    """
    rows = await connection.fetch(
        statements_submit.ENTER, *_columns(entries), *zip(*wishes, strict=True), *limits
    )
    return [
        Verdict(row["verdict"], row["spider_id"], row["now"], row["tokens"], row["available"]) for row in rows
    ]


async def first_jobs(connection: Connection, asked: Sequence[tuple[UUID, str]]) -> list[FirstJob | None]:
    """Return for each (spider, request id) the job made under it, None for one that is gone."""
    rows = await connection.fetch(
        statements_submit.KNOWN, [spider for spider, _ in asked], [request for _, request in asked]
    )
    found = {row["n"] - 1: FirstJob(row["id"], row["request_digest"]) for row in rows}
    return [found.get(index) for index in range(len(asked))]


def _columns(entries: Sequence[Entry]) -> tuple[list[object], ...]:
    jobs = [entry.job for entry in entries]
    return (
        [entry.key_id for entry in entries],
        [entry.nonce for entry in entries],
        [entry.signed_at for entry in entries],
        [job and job.job_id for job in jobs],
        [job and job.task_id for job in jobs],
        [job and job.request_id for job in jobs],
        [job and job.request_digest for job in jobs],
        [job and job.kind for job in jobs],
        [job and job.title for job in jobs],
        [job and job.source for job in jobs],
        [job and job.source_url for job in jobs],
        [job and job.gallery for job in jobs],
        [job and job.image_count for job in jobs],
        [job and job.task_order for job in jobs],
        [job and job.trace_parent for job in jobs],
    )


async def sealed_secrets(session: AsyncSession, key_ids: Sequence[str]) -> dict[str, bytes]:
    """Return the boxes with the secrets of those keys that work: they are known and not revoked."""
    query = select(spider_keys.c.key_id, spider_keys.c.sealed_secret).where(
        spider_keys.c.key_id == any_(literal(list(key_ids), ARRAY(Text))), spider_keys.c.revoked_at.is_(None)
    )
    return {row.key_id: row.sealed_secret for row in await session.execute(query)}


async def purge_nonces(session: AsyncSession, keep_seconds: float) -> int:
    """Delete up to a batch of nonces signed over `keep_seconds` ago and return how many those were."""
    old = nonces.c.signed_at < func.now() - timedelta(seconds=keep_seconds)
    batch = select(nonces.c.spider_id, nonces.c.nonce).where(old).limit(PURGE_BATCH).subquery()
    gone = await session.execute(
        delete(nonces)
        .where(nonces.c.spider_id == batch.c.spider_id, nonces.c.nonce == batch.c.nonce)
        .returning(nonces.c.nonce)
    )
    return len(gone.all())
