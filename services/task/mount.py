"""Wire the task context: lanes, desks, loops and the servicer."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import grpc
from frontrow.task.v1 import task_service_pb2, task_service_pb2_grpc

from libs.common.db import Database
from libs.common.interceptors.admission import all_of
from libs.common.lane import Lane
from libs.common.loops import Loop
from libs.common.mounted import Mounted, Stopping
from libs.common.readiness import DATABASE, DatabaseAnswers
from libs.common.settings import CommonSettings
from services.task.beats import BeatDesk
from services.task.bulletin import Bulletin
from services.task.creations import CreateDesk
from services.task.idle import IdleReasons
from services.task.limits import TypeLimits
from services.task.loops.counters import Counters
from services.task.loops.due import DueTasks
from services.task.loops.gauges import QueueGauges
from services.task.loops.patience import Patience
from services.task.loops.policies import PolicyWatch
from services.task.loops.poll import Poll
from services.task.loops.retention import Retention
from services.task.loops.sweep import Sweep
from services.task.loops.workers import WorkerRegistry
from services.task.metrics import TaskMetrics
from services.task.repository_end import Backoff
from services.task.servicer import Parts, TaskServicer
from services.task.settings import TaskSettings
from services.task.signals import Signals
from services.task.watch import WatchHub
from services.task.work import WorkDesk

LANE_SETTINGS = {"lock_timeout": "2s", "idle_in_transaction_session_timeout": "10s"}
"""How long a statement that many calls share waits for a row, and a server that fell silent may hold one.

The former is longer than any transaction of ours: whoever holds a row for longer (a person in psql) holds up
the one call that is about it. The latter leaves another server the time to renew those leases.
"""

SERVICE = task_service_pb2.DESCRIPTOR.services_by_name["TaskService"].full_name


async def mount(settings: TaskSettings, common: CommonSettings) -> Mounted:
    """Return what the task context puts on its server. The schema must be up to date; nothing connects."""
    context = _Context(settings, common)
    return Mounted(
        register=context.register,
        service_names=(SERVICE,),
        loops=context.loops(),
        close=context.close,
        on_stopping=context.stop,
        long_polls=(f"/{SERVICE}/ClaimTasks",),
        room_for_waits=settings.max_waiting_claims,
        urgent={**all_of(SERVICE, "Heartbeat", "FinishTasks"), f"/{SERVICE}/ClaimTasks": _ends_runs},
        checks={DATABASE: context.answers.check, "listener": context.bulletin.check},
    )


def _ends_runs(request: Any) -> bool:
    return request is not None and bool(request.finish)


class _Flushes:
    """Stops when the last flushes have ended: what they have to tell goes out before the bulletin closes."""

    def __init__(self, context: _Context) -> None:
        self._desks = (context.creations, context.beats, context.work)

    async def start(self) -> None:
        """Nothing to begin."""

    async def stop(self) -> None:
        """Let the last flushes end."""
        for desk in self._desks:
            await desk.drained()


class _Context:
    """The parts of one server and how they hang together."""

    def __init__(self, settings: TaskSettings, common: CommonSettings) -> None:
        self.settings = settings
        self.measures = common.telemetry.measures
        self.database = Database(common.database, "frontrow-task")
        self.answers = DatabaseAnswers(common.database, "frontrow-task-health")
        names = ("work", "beat", "beat-again", "create", "upkeep")
        self.lanes = {name: Lane(common.database, f"frontrow-task-{name}", **LANE_SETTINGS) for name in names}
        self.limits = TypeLimits(settings)
        self.metrics = TaskMetrics()
        self.signals = Signals(self.limits, self.metrics)
        self.stopping = Stopping()
        self.patience = Patience(longest_gap_seconds=settings.sweep_interval_seconds * 2 + 2)
        self.idle = IdleReasons(self.database)
        self._open_desks()
        self._begin_upkeep()
        self.watches = WatchHub(
            self.database, poll_seconds=settings.poll_seconds, listening=lambda: self.bulletin.listening
        )
        self.bulletin = Bulletin(
            common.database,
            on_wake=self._woken,
            on_changed=self._changed_elsewhere,
            on_policy=self.policies.wake,
        )
        self.signals.connect(
            wake=self.work.signal,
            changed=self.watches.changed,
            added=self.watches.added,
            publish=self.bulletin.publish,
            later=self.due.note,
            noted=self._noted,
        )

    def _open_desks(self) -> None:
        settings, signals = self.settings, self.signals
        backoff = Backoff(settings.retry_base_seconds, settings.retry_longest_seconds)
        self.work = WorkDesk(self.lanes["work"], self.limits, backoff, signals.worked)
        self.beats = BeatDesk(
            self.lanes["beat"],
            self.lanes["beat-again"],
            lost_claim_seconds=settings.lost_claim_seconds,
            on_rise=signals.rose,
            on_ended=signals.ended,
            on_failure=self.patience.doubt,
        )
        self.creations = CreateDesk(self.lanes["create"], self.work, on_created=signals.created)

    def _begin_upkeep(self) -> None:
        settings, lane = self.settings, self.lanes["upkeep"]
        self.counters = Counters(lane)
        self.poll = Poll(self.work, interval_seconds=settings.poll_seconds)
        self.workers = WorkerRegistry(lane)
        self.policies = PolicyWatch(self.database, self.limits, self._policies_read)
        self.due = DueTasks(
            lane,
            lambda found: self.signals.tell([], found),
            interval_seconds=settings.due_interval_seconds,
            listening=lambda: self.bulletin.listening,
        )

    def loops(self) -> tuple[Loop, ...]:
        """Return the duties that run beside the RPCs."""
        settings, lane = self.settings, self.lanes["upkeep"]
        gauges = (QueueGauges(self.database, self.metrics),) if self.measures else ()
        return (
            *gauges,
            self.bulletin,
            _Flushes(self),
            self.policies,
            self.due,
            self.counters,
            self.workers,
            self.poll,
            Sweep(
                lane,
                self.limits,
                self.signals.ended,
                interval_seconds=settings.sweep_interval_seconds,
                patience=self.patience,
                poll=self.poll,
            ),
            Retention(
                lane,
                keep_days=settings.keep_finished_days,
                interval_seconds=settings.retention_interval_seconds,
            ),
        )

    def register(self, server: grpc.aio.Server) -> None:
        """Add the servicer."""
        parts = Parts(
            database=self.database,
            limits=self.limits,
            creations=self.creations,
            work=self.work,
            beats=self.beats,
            watches=self.watches,
            idle=self.idle,
            upkeep=self.lanes["upkeep"],
            signals=self.signals,
            metrics=self.metrics,
            workers=self.workers,
            most_waiting=self.settings.max_waiting_claims,
            policy_changed=self._policy_changed,
            stopping=self.stopping,
        )
        task_service_pb2_grpc.add_TaskServiceServicer_to_server(TaskServicer(parts), server)

    def stop(self) -> None:
        """End long polls and watches."""
        self.stopping.set()
        self.work.dismiss()
        self.watches.stop()

    async def close(self) -> None:
        """Close every connection, each when nobody uses it any more."""
        for lane in self.lanes.values():
            await lane.close()
        await self.answers.close()
        await self.database.close()

    def _woken(self, task_type: str | None, count: int) -> None:
        """Hear from another server of tasks that may be claimed; None: of any type."""
        self.idle.doubt()
        if task_type is None:
            self.work.probe()
        else:
            self.work.signal(task_type, count)

    def _changed_elsewhere(self, task_ids: list[UUID] | None) -> None:
        """Hear from another server of tasks that changed; None: anything may have."""
        self.idle.doubt()
        self.due.doubt()
        self.watches.changed(task_ids)

    def _noted(self) -> None:
        """Hear from a desk of this server that something has changed."""
        self.idle.doubt()
        self.due.doubt()
        self.counters.note()

    def _policies_read(self) -> None:
        self.idle.forget()
        # A pause may have ended, a limit may have been raised.
        self.work.probe()

    def _policy_changed(self) -> None:
        self.policies.wake()
        self.bulletin.publish_policy()
