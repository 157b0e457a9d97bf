"""Those who follow tasks by level: whatever they missed, they come to know how everything stands."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any
from uuid import UUID

import grpc.aio
from frontrow.task.v1 import task_pb2
from frontrow.task.v1 import task_service_pb2 as pb
from hypothesis import strategies as st
from hypothesis.stateful import rule

from libs.common.testing import eventually
from tests.integration.task.service import Tasks, status_name
from tests.soak.task.machine.core import TYPES, Core, picks, servers
from tests.soak.task.rig import SERVERS, Rig
from tests.soak.task.terms import TERMINAL

# Above the look that a watch takes without being told of anything.
CATCH_UP_SECONDS = 25.0

Shown = tuple[int, str, int, bool]


class _Watcher:
    """One stream that is begun again when it ends, and what it has shown since. Without ids: of all types."""

    def __init__(self, rig: Rig, server: int, task_ids: tuple[UUID, ...]) -> None:
        self._rig, self.server = rig, server
        self.task_ids = task_ids
        self.shown: dict[UUID, Shown] = {}
        self._following: Any = None
        self._ended = False

    async def begin(self) -> None:
        """Begin to follow, in the rig's loop."""
        self._following = self._rig.spawn(self._follow())

    async def end(self) -> None:
        """End the stream."""
        self._ended = True
        self._following.cancel()

    async def _follow(self) -> None:
        named = [str(task_id) for task_id in self.task_ids]
        request = pb.WatchTasksRequest(types=[] if named else TYPES, task_ids=named)
        while True:
            client: Tasks = self._rig.clients[self.server]
            # What changed while nobody watched isn't told afterwards, unless by its present state.
            self.shown.clear()
            try:
                async for response in client.stub.WatchTasks(request):
                    self.shown[UUID(response.task.id)] = _shown(response.task)
            except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.CancelledError):
                if self._ended:  # grpc says the same when its channel is closed under a stream
                    return
                await self._rig.moment()


def _shown(task: task_pb2.Task) -> Shown:
    asked = task.HasField("cancel_request_time")
    return task.version, status_name(task).lower(), task.progress, asked


class WatchRules(Core):
    """Rules of those who watch."""

    def __init__(self) -> None:
        super().__init__()
        self._watchers = [_Watcher(self.rig, server, ()) for server in range(SERVERS)]
        for watcher in self._watchers:
            self.run(watcher.begin())

    @rule(server=servers, some=st.lists(picks, min_size=1, max_size=3))
    def watch_some(self, server: int, some: list[int]) -> None:
        """Follow some tasks by their ids, finished ones too; a third such watch ends the first."""
        if not self.model.tasks:
            return
        if len(self._watchers) > SERVERS + 1:
            self.run(self._watchers.pop(SERVERS).end())
        named = tuple(sorted({self.some_task(pick).task_id for pick in some}))
        self._watchers.append(_Watcher(self.rig, server, named))
        self.run(self._watchers[-1].begin())

    @rule(dice=st.integers(0, 2))
    def watches_catch_up(self, dice: int) -> None:
        """Wait until every watch has shown how its tasks stand now."""
        if dice == 0:
            self._catch_up()

    def _catch_up(self) -> None:
        for watcher in self._watchers:
            self.run(eventually(partial(self._has_caught_up, watcher), CATCH_UP_SECONDS))

    def _has_caught_up(self, watcher: _Watcher) -> bool:
        for task in self.model.tasks.values():
            now = (task.version, task.status, task.progress, task.cancel_requested)
            shown = watcher.shown.get(task.task_id)
            if watcher.task_ids:
                must_show = task.task_id in watcher.task_ids
            else:
                # The last change of a finished task was shown if any state of it was.
                must_show = task.status not in TERMINAL or shown is not None
            assert not must_show or shown == now, f"{task.task_id} is {now}, a watch shows {shown}"
            assert must_show or shown is None, f"{task.task_id} was shown to a watch of others"
        return True

    def teardown(self) -> None:
        """Let everything come to its end, and see that all who watch know of it."""
        super().teardown()
        self._catch_up()
        for watcher in self._watchers:
            self.run(watcher.end())
