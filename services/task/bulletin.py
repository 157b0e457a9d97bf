"""Tell the other servers what changed, and hear it from them: NOTIFY after the commit, LISTEN beside it.

A notice is a hint. It is sent at most every 50 ms, never inside a transaction that writes (NOTIFY takes a
global lock at its commit), and a lost one costs no more than the time of a poll.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import asyncpg
import structlog

from libs.common.lane import Connection, connect
from libs.common.loops import backoff_seconds
from libs.common.settings import DatabaseSettings

log = structlog.get_logger(__name__)

CHANNEL = "frontrow_task"
GAP_SECONDS = 0.05
PING_SECONDS = 20.0
PING_ANSWER_SECONDS = 5.0
LAST_WORD_SECONDS = 1.0
# Who waits at one server for what another one does hears of it by a notice, or waits for the poll.
LONGEST_BACKOFF_SECONDS = 1.0
# A notice may be 8,000 bytes long: 150 ids take 5,250, 20 types of 64 characters and counts about 1,600.
MOST_IDS = 150
MOST_TYPES = 20

OnWake = Callable[[str | None, int], None]
OnChanged = Callable[[list[UUID] | None], None]
OnPolicy = Callable[[], None]


class NotListening(Exception):
    """Nothing is heard of what other servers do."""


@dataclass(slots=True)
class _Unsaid:
    """What the other servers haven't been told yet; `too_many`: more changed than a notice can name."""

    wakes: Counter[str] = field(default_factory=Counter)
    changed: set[UUID] = field(default_factory=set)
    too_many: bool = False
    policy: bool = False

    def __bool__(self) -> bool:
        return bool(self.wakes or self.changed or self.too_many or self.policy)

    def add(self, more: _Unsaid) -> None:
        """Take in more."""
        self.wakes.update(more.wakes)
        self.changed |= more.changed
        self.too_many = self.too_many or more.too_many or len(self.changed) > MOST_IDS
        if self.too_many:
            self.changed.clear()
        self.policy = self.policy or more.policy

    def notice(self) -> dict[str, object]:
        """Return it as the body of a notice."""
        # More types than fit: one word for all of them.
        wakes = dict(self.wakes) if len(self.wakes) <= MOST_TYPES else None
        changed = None if self.too_many else [task_id.hex for task_id in self.changed]
        policy = {"policy": True} if self.policy else {}
        return {"wake": wakes, "changed": changed, **policy}


class Bulletin:
    """The loop that holds the connection.

    `on_wake` gets (type, count), or None for any type; `on_changed` gets ids, or None: look at everything;
    `on_policy` is told that a policy changed.
    """

    def __init__(
        self, settings: DatabaseSettings, *, on_wake: OnWake, on_changed: OnChanged, on_policy: OnPolicy
    ) -> None:
        self._settings = settings
        self._on_wake = on_wake
        self._on_changed = on_changed
        self._on_policy = on_policy
        self._me = uuid4().hex[:12]
        self._unsaid = _Unsaid()
        self._stopping = False
        self._pending = asyncio.Event()
        self._ping_heard = asyncio.Event()
        self._listening = False
        self._task: asyncio.Task[None] | None = None

    @property
    def listening(self) -> bool:
        """Whether notices of other servers are heard now."""
        return self._listening

    async def check(self) -> None:
        """Return if notices are heard. Raises NotListening: work is found by polls meanwhile."""
        if not self._listening:
            raise NotListening("the connection that hears of other servers' work is broken")

    def publish(self, wakes: Mapping[str, int], changed: Iterable[UUID]) -> None:
        """Note what the other servers shall hear with the next notice. Call it after the commit."""
        self._note(_Unsaid(Counter(wakes), set(changed)))

    def publish_policy(self) -> None:
        """Tell the other servers that a policy changed. Call it after the commit."""
        self._note(_Unsaid(policy=True))

    def _note(self, more: _Unsaid) -> None:
        self._unsaid.add(more)
        if self._unsaid:
            self._pending.set()

    async def start(self) -> None:
        """Connect and listen; keeps trying while the database is away."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="task:bulletin")

    async def stop(self) -> None:
        """Send what is pending, if that is quick, and close the connection."""
        task, self._task = self._task, None
        if task is not None:
            self._stopping = True
            self._pending.set()
            await asyncio.wait({task}, timeout=LAST_WORD_SECONDS)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        failures = 0
        while not self._stopping:
            try:
                connection = await connect(self._settings, "frontrow-task-bulletin")
                try:
                    # A listener whose connection dies must not sit there until the next ping.
                    connection.add_termination_listener(lambda _: self._pending.set())
                    await connection.add_listener(CHANNEL, self._heard)
                    self._listening = True
                    failures = 0
                    # What was said while nobody listened is unknown.
                    self._on_wake(None, 1)
                    self._on_changed(None)
                    self._on_policy()
                    await self._converse(connection)
                finally:
                    self._listening = False
                    connection.terminate()
            except Exception as error:  # noqa: BLE001 - whatever it was, listening must go on
                failures += 1
                log.warning("task.bulletin_broken", error=repr(error)[:300], failures=failures)
                await asyncio.sleep(backoff_seconds(failures, longest=LONGEST_BACKOFF_SECONDS))

    async def _converse(self, connection: Connection) -> None:
        """Send notices as they come up, a ping to ourselves when it was quiet; until `stop` or an error."""
        ping_at = time.monotonic() + PING_SECONDS
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._pending.wait(), max(0.0, ping_at - time.monotonic()))
            if connection.is_closed():
                raise asyncpg.ConnectionDoesNotExistError("the listener's connection was closed")
            if self._pending.is_set():
                await self._say(connection)
                if self._stopping:
                    return
                await asyncio.sleep(GAP_SECONDS)
            if time.monotonic() >= ping_at:
                self._ping_heard.clear()
                await self._notify(connection, {"ping": 1})
                await asyncio.wait_for(self._ping_heard.wait(), PING_ANSWER_SECONDS)
                ping_at = time.monotonic() + PING_SECONDS

    async def _say(self, connection: Connection) -> None:
        """Tell what is unsaid; what can't be told stays so, for the next connection."""
        saying, self._unsaid = self._unsaid, _Unsaid()
        self._pending.clear()
        if not saying:
            return
        try:
            await self._notify(connection, saying.notice())
        except BaseException:
            self._note(saying)
            raise

    async def _notify(self, connection: Connection, notice: Mapping[str, object]) -> None:
        text = json.dumps({"from": self._me, **notice}, separators=(",", ":"))
        await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, text)

    def _heard(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        notice = json.loads(str(payload))
        if notice["from"] == self._me:
            if "ping" in notice:
                self._ping_heard.set()
            return
        if "policy" in notice:
            self._on_policy()
        wakes = notice.get("wake", {})
        if wakes is None:
            self._on_wake(None, 1)
        else:
            for task_type, count in wakes.items():
                self._on_wake(task_type, count)
        if "changed" in notice:
            ids = notice["changed"]
            if ids is None:
                self._on_changed(None)
            elif ids:
                self._on_changed([UUID(hex=task_id) for task_id in ids])
