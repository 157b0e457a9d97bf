"""The rows of an outbox: calls to another context, written in the transaction that they must follow.

The relay (`libs.common.outbox`) sends them when that has committed.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    func,
    insert,
    text,
)
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.tracing import present_trace


def outbox_table(metadata: MetaData) -> Table:
    """Define the table ``outbox`` in the schema of ``metadata``.

    ``subject`` is the resource whose calls keep their order, ``kind`` names the sender. A row is deleted
    when it was sent; ``dead_at`` is set when the receiver refused it for good. ``trace_parent`` is the trace
    in which it was written: the call goes on in it.
    """
    table = Table(
        "outbox",
        metadata,
        Column("id", BigInteger, Identity(always=True), primary_key=True),
        Column("subject", Text, nullable=False),
        Column("kind", Text, nullable=False),
        Column("body", LargeBinary, nullable=False),
        Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
        Column("attempts", Integer, nullable=False, server_default=text("0")),
        Column("next_attempt_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
        Column("locked_until", DateTime(timezone=True)),
        Column("last_error", Text, nullable=False, server_default=text("''")),
        Column("dead_at", DateTime(timezone=True)),
        Column("trace_parent", Text, nullable=False, server_default=text("''")),
    )
    Index("outbox_live_by_subject", table.c.subject, table.c.id, postgresql_where=text("dead_at IS NULL"))
    return table


async def enqueue(session: AsyncSession, table: Table, *, subject: str, kind: str, body: bytes) -> None:
    """Add a call in the caller's transaction; wake the relay after the commit.

    Rows of one subject are sent in the order of their ids. Two transactions that enqueue for one subject
    must be ordered already by a lock on what the subject names, which both change anyway.
    """
    await session.execute(
        insert(table).values(subject=subject, kind=kind, body=body, trace_parent=present_trace())
    )
