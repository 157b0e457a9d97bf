"""Tables of the ingest schema."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from libs.common.outbox_table import outbox_table

AnyRow = Row[*tuple[Any, ...]]

SCHEMA = "ingest"
metadata = MetaData(schema=SCHEMA)

_NOW = text("now()")
_EMPTY = text("''")
_ZERO = text("0")


def _text(name: str) -> Column[str]:
    return Column(name, Text, nullable=False, server_default=_EMPTY)


def _number(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False, server_default=_ZERO)


spiders = Table(
    "spiders",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("name", Text, nullable=False),
    _text("request_id"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    UniqueConstraint("name", name="uq_spiders_name"),
)
Index("uq_spiders_request_id", spiders.c.request_id, unique=True, postgresql_where=text("request_id <> ''"))

spider_keys = Table(
    "spider_keys",
    metadata,
    Column("key_id", Text, primary_key=True),
    Column("spider_id", Uuid, ForeignKey(spiders.c.id, ondelete="CASCADE"), nullable=False),
    _text("request_id"),
    # sealed with the server's key: a dump of this table signs nothing
    Column("sealed_secret", LargeBinary, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    Column("revoked_at", DateTime(timezone=True)),
    # calls that may still be made as of `budget_at`, before the bucket is filled up: infinite is full
    Column("budget", Double, nullable=False, server_default=text("'Infinity'")),
    Column("budget_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
)
Index("spider_keys_by_spider", spider_keys.c.spider_id)
Index(
    "uq_spider_keys_request_id",
    spider_keys.c.spider_id,
    spider_keys.c.request_id,
    unique=True,
    postgresql_where=text("request_id <> ''"),
)

nonces = Table(
    "nonces",
    metadata,
    # by spider and not by key: a nonce replayed under the spider's other key is a replay too
    Column("spider_id", Uuid, ForeignKey(spiders.c.id, ondelete="CASCADE"), primary_key=True),
    Column("nonce", Text, primary_key=True),
    Column("signed_at", DateTime(timezone=True), nullable=False),
)
Index("nonces_by_time", nonces.c.signed_at)

jobs = Table(
    "jobs",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("spider_id", Uuid, ForeignKey(spiders.c.id), nullable=False),
    _text("request_id"),
    # sha256 of the submitted gallery: tells a repeat from other content under the same request_id
    Column("request_digest", LargeBinary, nullable=False),
    Column("kind", Text, nullable=False),
    Column("status", Text, nullable=False, server_default=text("'pending'")),
    _text("done_reason"),
    _text("failure_reason"),
    _text("error_message"),
    _text("title"),
    _text("source"),
    _text("source_url"),
    # the serialised Gallery, normalised: images sorted, each address once
    Column("gallery", LargeBinary, nullable=False),
    _number("image_count"),
    Column("task_id", Uuid, nullable=False),
    Column("seen_task_version", BigInteger, nullable=False, server_default=_ZERO),
    # try of the task that was begun last, and how many of its tries failed
    _number("run_attempt"),
    _number("attempts"),
    _text("draft_id"),
    Column("blocker", JSONB(none_as_null=True)),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    Column("started_at", DateTime(timezone=True)),
    Column("finished_at", DateTime(timezone=True)),
    CheckConstraint("kind IN ('runway', 'street_snap')", name="jobs_kind"),
    CheckConstraint("status IN ('pending', 'processing', 'done', 'failed')", name="jobs_status"),
    CheckConstraint(
        "CASE WHEN status = 'done' THEN done_reason IN"
        " ('created', 'source_duplicate', 'source_conflict', 'entity_duplicate') ELSE done_reason = '' END",
        name="jobs_done_reason",
    ),
    CheckConstraint("(status = 'failed') = (failure_reason <> '')", name="jobs_failure_reason"),
    CheckConstraint("(status IN ('done', 'failed')) = (finished_at IS NOT NULL)", name="jobs_finished"),
)
Index(
    "uq_jobs_request_id",
    jobs.c.spider_id,
    jobs.c.request_id,
    unique=True,
    postgresql_where=text("request_id <> ''"),
)
Index("uq_jobs_task_id", jobs.c.task_id, unique=True)
Index("jobs_open", jobs.c.id, postgresql_where=text("status IN ('pending', 'processing')"))
Index("jobs_by_status", jobs.c.status, jobs.c.id)
Index("jobs_by_source", jobs.c.source, jobs.c.id)
Index("jobs_by_url", jobs.c.source_url, jobs.c.id, postgresql_where=text("source_url <> ''"))

job_images = Table(
    "job_images",
    metadata,
    Column("job_id", Uuid, ForeignKey(jobs.c.id, ondelete="CASCADE"), primary_key=True),
    Column("position", SmallInteger, primary_key=True),
    Column("result", Text, nullable=False),
    _text("reason"),
    _text("message"),
    _text("media_key"),
    _text("sha256"),
    Column("size_bytes", BigInteger, nullable=False, server_default=_ZERO),
    _text("content_type"),
    _number("width"),
    _number("height"),
    _text("dhash"),
    Column("thumbnail_keys", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    # how often its host wanted a pause that was too long to wait for
    _number("pauses"),
    CheckConstraint("result IN ('stored', 'failed')", name="job_images_result"),
)

# Hosts that asked a worker to be left alone; a row is worth nothing once its time has come. No more rows than
# hosts that asked in one hour, the longest pause: each new pause takes away those that are over.
host_pauses = Table(
    "host_pauses",
    metadata,
    Column("host", Text, primary_key=True),
    Column("until", DateTime(timezone=True), nullable=False),
)

# What administrators removed, and who did.
audit_log = Table(
    "audit_log",
    metadata,
    Column("id", BigInteger, Identity(always=False), primary_key=True),
    # jobs.purged
    Column("action", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("details", JSONB, nullable=False, server_default=text("'{}'")),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
)

outbox = outbox_table(metadata)
