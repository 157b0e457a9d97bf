"""The media rows of the review schema: what is known of every stored image (domain.md 4.9)."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

SCHEMA = "review"
metadata = MetaData(schema=SCHEMA)

media = Table(
    "media",
    metadata,
    Column("id", BigInteger, Identity(always=False), primary_key=True),
    Column("key", String(255), nullable=False),
    # beside the key's sha1, since sha1 can be forged
    Column("sha256", String(64), nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("content_type", String(80), nullable=False),
    Column("width", Integer, nullable=False),
    Column("height", Integer, nullable=False),
    # difference hash of the picture, for near-duplicates; null when it isn't known
    Column("dhash", BigInteger),
    # set on thumbnails: they live and go with their original
    Column("parent_id", BigInteger, ForeignKey("media.id", ondelete="RESTRICT")),
    Column("state", Text, nullable=False, server_default=text("'reserved'")),
    # the job that announced it last
    Column("job_id", String(64), nullable=False, server_default=text("''")),
    # when an upload or a draft last had to do with it: young rows are never cleaned up
    Column("touched_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    # when the clean-up found it without references; cleared by whoever touches it
    Column("marked_at", DateTime(timezone=True)),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    UniqueConstraint("key", name="uq_media_key"),
    CheckConstraint("state IN ('reserved', 'live', 'deleting')", name="media_state"),
    CheckConstraint("parent_id <> id", name="media_parent"),
    Index("ix_media_parent", "parent_id", postgresql_where=text("parent_id IS NOT NULL")),
    Index("ix_media_marked", "marked_at", postgresql_where=text("marked_at IS NOT NULL")),
    Index("ix_media_deleting", "id", postgresql_where=text("state = 'deleting'")),
)

# The four 16-bit parts of each difference hash. Two hashes that differ in at most 6 bits differ in at most
# one bit in one of their parts, so that 17 values a part find all candidates by index.
media_bands = Table(
    "media_bands",
    metadata,
    Column("band", SmallInteger, primary_key=True),
    Column("value", Integer, primary_key=True),
    Column("media_id", BigInteger, ForeignKey(media.c.id, ondelete="CASCADE"), primary_key=True),
    # the whole hash, so that what isn't near is left out inside the index (of which it is a part)
    Column("dhash", BigInteger),
    Index("ix_media_bands_media", "media_id"),
)

# Pairs that an editor said are not the same; the lower id first.
similar_dismissals = Table(
    "similar_dismissals",
    metadata,
    Column("media_id", BigInteger, ForeignKey(media.c.id, ondelete="CASCADE"), primary_key=True),
    Column("other_id", BigInteger, ForeignKey(media.c.id, ondelete="CASCADE"), primary_key=True),
    Column("actor", String(256), nullable=False, server_default=text("''")),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    CheckConstraint("media_id < other_id", name="similar_dismissals_order"),
    Index("ix_similar_dismissals_other", "other_id"),
)
