"""The two sides of following: a context's rows, and a task service that can go away."""

from collections.abc import Sequence

from sqlalchemy import text

from libs.common.context_server import ContextServer
from libs.common.db import Database
from libs.common.follow import Followed
from libs.common.ids import uuid7
from tests.integration.common.task_server import MemoryTasks

GUARD = (
    " WHERE id = :id AND task_id = :task AND seen_version < :version AND status <> 'completed' RETURNING id"
)


async def make_job_table(database: Database) -> None:
    async with database.begin() as session:
        await session.execute(text("CREATE SCHEMA IF NOT EXISTS shop"))
        await session.execute(
            text(
                "CREATE TABLE shop.job (id text PRIMARY KEY, task_id text, seen_version bigint, status text,"
                " reason text NOT NULL DEFAULT '', message text NOT NULL DEFAULT '')"
            )
        )


class Jobs:
    """A context's rows and its two guarded updates; ``acts`` notes those that took effect."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.acts: list[tuple[str, str, int]] = []
        self.broken: set[str] = set()
        self.failed_shown = 200

    async def add(self, owner_id: str, *, status: str = "pending", seen_version: int = 0) -> str:
        task_id = str(uuid7())
        async with self._database.begin() as session:
            await session.execute(
                text("INSERT INTO shop.job VALUES (:id, :task, :seen, :status)"),
                {"id": owner_id, "task": task_id, "seen": seen_version, "status": status},
            )
        return task_id

    async def add_many(self, count: int) -> list[str]:
        """Add pending rows in one statement; return their tasks."""
        task_ids = [str(uuid7()) for _ in range(count)]
        values = [{"id": f"row of {task_id}", "task": task_id} for task_id in task_ids]
        async with self._database.begin() as session:
            await session.execute(text("INSERT INTO shop.job VALUES (:id, :task, 0, 'pending')"), values)
        return task_ids

    async def row(self, owner_id: str) -> tuple[str, int, str, str]:
        async with self._database.begin() as session:
            found = await session.execute(
                text("SELECT status, seen_version, reason, message FROM shop.job WHERE id = :id"),
                {"id": owner_id},
            )
            status, seen_version, reason, message = found.one()
        return status, seen_version, reason, message

    async def current(self) -> Sequence[Followed]:
        newest = "status = 'failed' ORDER BY task_id DESC LIMIT :shown"
        return [
            *await self._rows("status NOT IN ('completed', 'failed')"),
            *await self._rows(newest, shown=self.failed_shown),
        ]

    async def failed_of(self, task_ids: Sequence[str]) -> Sequence[Followed]:
        return await self._rows("status = 'failed' AND task_id = ANY(:tasks)", tasks=list(task_ids))

    async def failed_after(self, row: Followed | None) -> Sequence[Followed]:
        turn = "status = 'failed' AND task_id > :after ORDER BY task_id LIMIT 2"
        return await self._rows(turn, after=row.task_id if row else "")

    async def _rows(self, which: str, **values: object) -> list[Followed]:
        query = text(f"SELECT id, task_id, seen_version FROM shop.job WHERE {which}")
        async with self._database.begin() as session:
            return [Followed(*row) for row in await session.execute(query, values)]

    async def requeued(self, owner_id: str, task_id: str, version: int) -> None:
        await self._act("requeued", "status = 'pending'", (owner_id, task_id, version))

    async def ended(self, owner_id: str, task_id: str, version: int, reason: str, message: str) -> None:
        change = "status = 'failed', reason = :reason, message = :message"
        await self._act("ended", change, (owner_id, task_id, version), reason=reason, message=message)

    async def _act(self, act: str, change: str, fence: tuple[str, str, int], **values: str) -> None:
        owner_id, task_id, version = fence
        if owner_id in self.broken:
            raise RuntimeError("on purpose")
        statement = text(f"UPDATE shop.job SET seen_version = :version, {change}{GUARD}")
        async with self._database.begin() as session:
            done = await session.execute(
                statement, {"id": owner_id, "task": task_id, "version": version, **values}
            )
            if done.first():
                self.acts.append((act, owner_id, version))


class Service:
    """The task service's server, which can go away and come back on the same port."""

    def __init__(self, tasks: MemoryTasks) -> None:
        self._tasks = tasks
        self.address = "127.0.0.1:0"
        self._server: ContextServer | None = None

    async def start(self) -> None:
        self._server = ContextServer("task", self.address, self._tasks.mounted())
        self.address = await self._server.start()

    async def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop(grace_seconds=0.1)
