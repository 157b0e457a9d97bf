"""Connections of the driver's own that are kept for hot statements.

A pool would add a round trip a checkout, and the statements of a lane share a plan that must not depend on
statistics: only index lookups driven by what was given, never a join that walks the table.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, TypeAlias

import asyncpg

from libs.common.plaintext import permit_database
from libs.common.settings import DatabaseSettings

if TYPE_CHECKING:
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection  # takes no parameters at run time

_PLAN = {
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
}


def driver_url(url: str) -> str:
    """Return a database URL as asyncpg itself takes it. Raises InsecureTransport: see `permit_database`."""
    permit_database(url)
    return url.replace("postgresql+asyncpg://", "postgresql://", 1)


def session_settings(settings: DatabaseSettings, name: str) -> dict[str, str]:
    """Return what holds in every session called `name`, whatever database and role have for a default.

    READ COMMITTED is what every lock here counts on: what is read after a wait is what the last holder left
    (domain.md 4.4).
    """
    return {
        "application_name": name[:63],
        "statement_timeout": str(settings.statement_timeout_ms),
        "idle_in_transaction_session_timeout": str(settings.idle_in_transaction_timeout_ms),
        "timezone": "UTC",
        "default_transaction_isolation": "read committed",
    }


async def connect(settings: DatabaseSettings, name: str, **server_settings: str) -> Connection:
    """Open one connection outside any pool. Raises ClientCannotConnectError when nobody listens there."""
    try:
        return await asyncpg.connect(
            driver_url(settings.url),
            timeout=settings.pool_timeout_seconds,
            command_timeout=settings.command_timeout_seconds,
            statement_cache_size=settings.statement_cache_size,
            server_settings=session_settings(settings, name) | server_settings,
        )
    except OSError as error:
        raise asyncpg.exceptions.ClientCannotConnectError(
            f"cannot connect to the database: {error}"
        ) from error


# What the driver raises without a SQLSTATE; TimeoutError is an OSError.
_BARE = (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
# What it raises when the server has gone away since the last use.
_BROKEN = (asyncpg.PostgresConnectionError, *_BARE)


# What says that nothing was asked, and what an end of the server says, which may come behind a commit.
_NEVER_ASKED = (asyncpg.ClientCannotConnectError, asyncpg.ConnectionRejectionError)
_CUT = (asyncpg.PostgresConnectionError, asyncpg.AdminShutdownError, asyncpg.CrashShutdownError)


def outcome_unknown(error: BaseException) -> bool:
    """Tell whether what failed so may have been committed: the connection ended before the answer."""
    return isinstance(error, _CUT) and not isinstance(error, _NEVER_ASKED)


def _gone(error: BaseException) -> asyncpg.PostgresConnectionError:
    """Say with a SQLSTATE what the driver says without one: the connection is no longer there."""
    return asyncpg.ConnectionDoesNotExistError(f"the connection was lost: {error}")


class Lane:
    """A connection for one caller at a time, opened at its first use and again after it broke.

    `server_settings` are settings of the session beside, or instead of, those of every lane.
    """

    def __init__(self, settings: DatabaseSettings, name: str, **server_settings: str) -> None:
        self._settings = settings
        self._name = name
        self._server_settings = _PLAN | server_settings
        self._lock = asyncio.Lock()
        self._connection: Connection | None = None

    @asynccontextmanager
    async def transaction(self, opening: str = "") -> AsyncIterator[Connection]:
        """Give the connection inside a transaction that commits at the end of the block.

        `opening` are statements without parameters that go with its BEGIN in one round trip, locks for
        example; each sees what was committed before it, as any other.

        A connection that breaks, or a statement that takes longer than command_timeout, is told as a
        PostgresConnectionError: the same call may succeed later.
        """
        async with self._lock:
            connection = await self._begin(f"BEGIN; {opening}")
            with self._told_apart(connection):
                try:
                    yield connection
                except OSError:
                    # Without a SQLSTATE: the connection broke, or a statement ran into command_timeout.
                    self._drop(connection)
                    raise
                except BaseException:
                    await self._roll_back(connection)
                    raise
                try:
                    await connection.execute("COMMIT")
                except BaseException:
                    self._drop(connection)
                    raise

    @asynccontextmanager
    async def statements(self) -> AsyncIterator[Connection]:
        """Give the connection without a transaction: each statement commits by itself, two round trips less.

        Errors are told as by `transaction`. A statement after whose error nobody knows whether it was
        committed is never asked again here.
        """
        async with self._lock:
            if self._connection is None or self._connection.is_closed():
                self._connection = await connect(self._settings, self._name, **self._server_settings)
            connection = self._connection
            with self._told_apart(connection):
                yield connection

    @contextmanager
    def _told_apart(self, connection: Connection) -> Iterator[None]:
        """Give a connection that ends in the middle of something a SQLSTATE."""
        try:
            yield
        except _BARE as error:
            if isinstance(error, asyncpg.InterfaceError) and not connection.is_closed():
                raise  # the driver was used wrongly
            self._drop(connection)
            raise _gone(error) from error
        except asyncpg.ReadOnlySQLTransactionError:
            self._drop(connection)  # another one may be the primary by now, at the same address
            raise

    async def close(self) -> None:
        """Close the connection when nobody uses it any more."""
        async with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None and not connection.is_closed():
                await connection.close(timeout=2)

    async def _begin(self, opening: str) -> Connection:
        for fresh in (False, True):
            if self._connection is None or self._connection.is_closed():
                self._connection = await connect(self._settings, self._name, **self._server_settings)
                fresh = True  # noqa: PLW2901 - a connection opened just now gets no second try
            connection = self._connection
            try:
                await connection.execute(opening)
            except _BROKEN as error:
                # The server was restarted since the last use: nothing was asked yet, so ask again.
                self._drop(connection)
                if fresh or isinstance(error, TimeoutError):
                    raise _gone(error) from error
                continue
            except BaseException:
                await self._roll_back(connection)
                raise
            return connection
        raise AssertionError("unreachable")

    async def _roll_back(self, connection: Connection) -> None:
        if connection.is_closed():
            self._drop(connection)
            return
        try:
            await connection.execute("ROLLBACK")
        except Exception:  # noqa: BLE001 - the error that led here is the one to tell
            self._drop(connection)
        except BaseException:  # cancelled once more: nobody may go on in a transaction that is still open
            self._drop(connection)
            raise

    def _drop(self, connection: Connection) -> None:
        if not connection.is_closed():
            connection.terminate()
        if self._connection is connection:
            self._connection = None
