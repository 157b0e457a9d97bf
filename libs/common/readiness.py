"""Tell whether what a server stands on works: its database, its listener, its store.

Health follows it: a load balancer then sends calls to another server, and people see what is wrong in the log
and in the metrics. Nothing is stopped or restarted for it: calls find out for themselves, but for a database
that is silent, where each would wait for its deadline. All recovers when what was away is back.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping

import asyncpg
import structlog
from opentelemetry import metrics

from libs.common.health import Health
from libs.common.lane import Connection, connect
from libs.common.loops import is_cancelled
from libs.common.settings import DatabaseSettings
from libs.common.tally import Level

log = structlog.get_logger(__name__)

DATABASE = "database"
"""The name of the check whose silence lets calls be refused."""

Check = Callable[[], Awaitable[None]]
"""Return when what is checked works; raise whatever says what is wrong."""

INTERVAL_SECONDS = 3.0
TROUBLED_SECONDS = 0.5
"""Between two looks at what doesn't work: it is to be used again soon after it is back."""
PATIENCE_SECONDS = 2.0
SILENT_SECONDS = 5.0
"""A silence of this length is no busy moment: what stands on it is refused without trying."""


class Readiness:
    """A loop for each check; `health` serves while all of them work.

    `name` is the server's. A check that doesn't end within `patience_seconds` has failed.
    """

    def __init__(
        self, name: str, health: Health, checks: Mapping[str, Check], *,
        interval_seconds: float = INTERVAL_SECONDS, patience_seconds: float = PATIENCE_SECONDS,
        meters: metrics.MeterProvider | None = None,
    ) -> None:  # fmt: skip
        self._name = name
        self._health = health
        self._checks = dict(checks)
        self._interval_seconds = interval_seconds
        self._patience_seconds = patience_seconds
        self._failing: set[str] = set()
        self._silent_since: dict[str, float] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._works = Level.of(
            meters, "server.check", ("server", "check"),
            unit="{check}", description="1 while what a server stands on works, 0 while it doesn't",
        )  # fmt: skip

    def is_silent(self, check: str) -> bool:
        """Tell whether what is checked has given no answer at all for seconds; a refusal is an answer."""
        since = self._silent_since.get(check)
        return since is not None and time.monotonic() - since >= SILENT_SECONDS

    async def start(self) -> None:
        """Look at everything once; return then, whatever was found."""
        if not self._checks:
            return  # a worker, whose health says what it finds
        await asyncio.gather(*map(self._look, self._checks))
        self._tell()
        self._tasks = [
            asyncio.create_task(self._watch(check), name=f"readiness:{check}") for check in self._checks
        ]

    async def stop(self) -> None:
        """Look no more."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, check: str) -> None:
        while True:
            pause = TROUBLED_SECONDS if check in self._failing else self._interval_seconds
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 - jitter
            await self._look(check)
            self._tell()

    async def _look(self, check: str) -> None:
        """Look at one thing, and once more before it is said not to work: a busy moment is no outage."""
        trouble = await self._trouble(check)
        if trouble and check not in self._failing:
            await asyncio.sleep(TROUBLED_SECONDS)
            trouble = await self._trouble(check)
        self._works.set(0 if trouble else 1, self._name, check)
        if not trouble:
            if check in self._failing:
                self._failing.discard(check)
                log.info("server.works_again", server=self._name, check=check)
        elif check not in self._failing:
            self._failing.add(check)
            log.warning("server.not_ready", server=self._name, check=check, error=trouble)

    async def _trouble(self, check: str) -> str:
        """Return what is wrong, empty when nothing is."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._patience_seconds):
                await self._checks[check]()
        except TimeoutError:
            self._silent_since.setdefault(check, began)
            return f"no answer within {time.monotonic() - began:.1f} s"
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            return "interrupted"
        except Exception as error:  # noqa: BLE001 - whatever it is, it doesn't work
            self._silent_since.pop(check, None)
            return f"{type(error).__name__}: {error}"[:300]
        self._silent_since.pop(check, None)
        return ""

    def _tell(self) -> None:
        self._health.set_serving(not self._failing)


async def _want_writes(connection: Connection) -> None:
    if await connection.fetchval("SELECT current_setting('transaction_read_only')") == "on":
        raise asyncpg.ReadOnlySQLTransactionError("it takes no writes")


class DatabaseAnswers:
    """Asks the database on a connection of its own: a pool that is in use says nothing about it."""

    def __init__(self, settings: DatabaseSettings, name: str) -> None:
        self._settings = settings
        self._name = name
        self._connection: Connection | None = None

    async def check(self) -> None:
        """Return if it answers. Raises what the driver raises, and begins with a new connection then.

        That nothing was heard is a TimeoutError, of a new connection, too: a silence, and not a refusal. One
        that takes no writes doesn't work: a standby, or one whose disk is full.
        """
        try:
            if self._connection is None or self._connection.is_closed():
                self._connection = await connect(self._settings, self._name)
            await _want_writes(self._connection)
        except BaseException as error:
            await self.close()
            if isinstance(error.__cause__, TimeoutError):
                raise error.__cause__ from error
            raise

    async def close(self) -> None:
        """Leave the connection as it is."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
