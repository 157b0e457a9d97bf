"""What administrators did that no draft's history tells."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, DateTime, Identity, String, Table, Text, text
from sqlalchemy.dialects.postgresql import JSONB

from services.review.models_media import metadata

audit_log = Table(
    "audit_log",
    metadata,
    Column("id", BigInteger, Identity(always=False), primary_key=True),
    # keys.merged, keys.unmerged, media.cleaned_up
    Column("action", Text, nullable=False),
    Column("actor", String(256), nullable=False),
    Column("details", JSONB, nullable=False, server_default=text("'{}'")),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
)
