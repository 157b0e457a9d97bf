"""Open one database for one context: its engine, its transactions, and what its errors mean."""

import re
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any, cast
from urllib.parse import quote, urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import sqlalchemy.exc
from sqlalchemy import event
from sqlalchemy.engine import URL, ExceptionContext, make_url
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

from libs.common.lane import Connection, session_settings
from libs.common.plaintext import permit_database
from libs.common.settings import DatabaseSettings

_PORT = 5432
# Classes and codes of SQLSTATE after which the same call may succeed: connection (08), rolled back by
# another (40: serialization failure, deadlock), resources (53), operator intervention (57, which also
# holds statement_timeout), a lock not had in time (55P03), idle in transaction too long (25P03), no writes
# (25006: it was a primary until now, or its disk is full and who manages it lets it be read alone).
_READ_ONLY = "25006"
_TRANSIENT_CLASSES = ("08", "40", "53", "57")
_TRANSIENT_CODES = frozenset({"55P03", "25P03", _READ_ONLY})
# After a migration each old connection fails once with this 0A000 and plans anew.
_STALE_PLAN = "InvalidCachedStatementError"


def async_url(url: str) -> URL:
    """Return ``url`` with the asyncpg driver; ``postgresql://`` and ``postgres://`` are accepted.

    ``sslmode`` is as for libpq; the roots that it verifies by are those of PGSSLROOTCERT.

    Raises:
        ValueError: another database or driver.
        InsecureTransport: it is on another machine, without TLS.
    """
    parsed = make_url(_by_query(url))
    if parsed.drivername not in {"postgresql+asyncpg", "postgresql", "postgres"}:
        raise ValueError(
            f"the database must be postgresql:// or postgresql+asyncpg://, not {parsed.drivername}://"
        )
    permit_database(url)
    query = {"ssl" if name == "sslmode" else name: value for name, value in parsed.query.items()}
    return parsed.set(drivername="postgresql+asyncpg", query=query)


def _by_query(url: str) -> str:
    """Return a URL whose several hosts, `h1:5433,h2`, stand in its query, where SQLAlchemy looks for them."""
    parts = urlsplit(url)
    login, at, places = parts.netloc.rpartition("@")
    if "," not in places:
        return url
    each = (place if re.search(r":\d+$", place) else f"{place}:{_PORT}" for place in places.split(","))
    hosts = "&".join(f"host={quote(place)}" for place in each)
    query = f"{parts.query}&{hosts}" if parts.query else hosts
    return urlunsplit(parts._replace(netloc=f"{login}{at}", query=query))


def make_engine(settings: DatabaseSettings, application_name: str) -> AsyncEngine:
    """Make an engine whose pool and timeouts are bounded; it connects at its first use."""
    connect_args: dict[str, Any] = {
        "async_creator_fn": _connect,
        "timeout": settings.pool_timeout_seconds,
        "command_timeout": settings.command_timeout_seconds,
        "server_settings": session_settings(settings, application_name),
    }
    connect_args["statement_cache_size"] = settings.statement_cache_size
    connect_args["prepared_statement_cache_size"] = settings.statement_cache_size
    if settings.statement_cache_size == 0:
        # behind pgbouncer in transaction mode a name may be taken already on the next connection
        connect_args["prepared_statement_name_func"] = lambda: f"__frontrow_{uuid4().hex}__"
    engine = create_async_engine(
        async_url(settings.url),
        pool_size=settings.pool_size,
        max_overflow=settings.max_overflow,
        pool_timeout=settings.pool_timeout_seconds,
        connect_args=connect_args,
        hide_parameters=True,  # an error's text goes into the log, where no payload belongs
    )
    event.listen(engine.sync_engine, "handle_error", _name_bare_errors)
    event.listen(engine.sync_engine, "handle_error", _leave_what_takes_no_writes)
    return engine


def _leave_what_takes_no_writes(failed: ExceptionContext) -> None:
    """Connect anew after a refused write: another one may be the primary by now, at the same address."""
    if failed.original_exception is not None and sqlstate(failed.original_exception) == _READ_ONLY:
        failed.is_disconnect = True


def _name_bare_errors(failed: ExceptionContext) -> BaseException | None:
    """Replace the driver's errors that carry no SQLSTATE, so that nobody takes them for their own.

    A statement that ran into ``command_timeout`` is a plain ``TimeoutError``, a connection that broke
    while it was written to may be a plain ``OSError``.
    """
    bare = failed.original_exception
    if isinstance(bare, TimeoutError):
        return asyncpg.exceptions.QueryCanceledError("the statement took longer than command_timeout")
    if isinstance(bare, OSError):
        return asyncpg.exceptions.ConnectionFailureError(f"the connection to the database broke: {bare}")
    return None


async def _connect(*args: Any, **kwargs: Any) -> Any:
    """Connect, and give "nobody listens there" the SQLSTATE that it lacks.

    A refused port, a missing socket file and a name that does not resolve are plain ``OSError``s,
    which nobody could tell from a missing file of their own further up.
    """
    try:
        return await asyncpg.connect(*args, **kwargs)
    except OSError as error:
        raise asyncpg.exceptions.ClientCannotConnectError(f"cannot reach the database: {error}") from error


class Database:
    """The database of a context: give it to repositories' callers, close it last."""

    def __init__(self, settings: DatabaseSettings, application_name: str) -> None:
        """Prepare the pool; nothing connects before the first statement.

        ``application_name`` is what ``pg_stat_activity`` shows, e.g. ``frontrow-task``.
        """
        self.engine = make_engine(settings, application_name)
        # expire_on_commit would reload every row read after the commit, one query each
        self._sessions = async_sessionmaker(self.engine, expire_on_commit=False)
        self._single_statements = async_sessionmaker(
            self.engine.execution_options(isolation_level="AUTOCOMMIT"), expire_on_commit=False
        )

    def begin(self) -> AbstractAsyncContextManager[AsyncSession]:
        """Open one transaction: committed when the block ends, rolled back when it raises.

        No RPC, no sleep and no file access inside: whatever must follow goes to the outbox.
        """
        return self._sessions.begin()

    def statements(self) -> AbstractAsyncContextManager[AsyncSession]:
        """Give a connection without a transaction: each statement commits by itself, two round trips less.

        For reads that need no common snapshot.
        """
        return self._single_statements()

    async def close(self) -> None:
        """Close every connection. Call it when no handler runs any more."""
        await self.engine.dispose()


async def driver_of(session: AsyncSession) -> Connection:
    """Return the driver's own connection of a session, for statements that are written for it.

    They belong to the session's transaction once that has run a statement of the session's own: only that
    begins it.
    """
    held = await (await session.connection()).get_raw_connection()
    return cast("Connection", held.driver_connection)


def _chain(exc: BaseException) -> Iterator[BaseException]:
    """Yield the error, the driver's error inside it, and what caused each."""
    pending: list[BaseException | None] = [exc]
    seen: set[int] = set()
    while pending:
        error = pending.pop(0)
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        yield error
        pending.append(getattr(error, "orig", None))
        pending.append(error.__cause__)


def sqlstate(exc: BaseException) -> str | None:
    """Return the five characters of SQLSTATE that PostgreSQL gave, or None when it gave none."""
    for error in _chain(exc):
        code = getattr(error, "sqlstate", None)
        if isinstance(code, str) and len(code) == 5:
            return code
    return None


def constraint_of(exc: BaseException) -> str | None:
    """Return the name of the constraint or unique index that refused a write (class 23), else None.

    Map a violation by this name and never by its SQLSTATE alone: another unique index of the same
    table means another fact.
    """
    for error in _chain(exc):
        name = getattr(error, "constraint_name", None)
        if isinstance(name, str) and name:
            return name
    return None


def is_transient(exc: BaseException) -> bool:
    """Tell whether the same call may succeed later: the database is away, busy or just changed."""
    code = sqlstate(exc)
    if code is not None and (code[:2] in _TRANSIENT_CLASSES or code in _TRANSIENT_CODES):
        return True
    for error in _chain(exc):
        if _STALE_PLAN in {base.__name__ for base in type(error).__mro__}:
            return True
        if isinstance(error, sqlalchemy.exc.TimeoutError):  # no connection of the pool came free
            return True
        if isinstance(error, sqlalchemy.exc.DBAPIError) and error.connection_invalidated:
            return True
    return False


def is_bad_data(exc: BaseException) -> bool:
    """Tell whether a value can never be stored (class 22: too long, NUL, a lone surrogate).

    What the driver itself can't write for the database (a number beyond its column's type) counts, too.
    """
    code = sqlstate(exc)
    if code is not None:
        return code.startswith("22")
    return any(
        isinstance(error, asyncpg.InterfaceError) and isinstance(error, ValueError) for error in _chain(exc)
    )
