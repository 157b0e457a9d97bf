"""The task service: all RPC groups in one servicer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from libs.common.db import Database
from libs.common.lane import Lane
from libs.common.mounted import Stopping
from services.task.beats import BeatDesk
from services.task.creations import CreateDesk
from services.task.idle import IdleReasons
from services.task.limits import TypeLimits
from services.task.loops.workers import WorkerRegistry
from services.task.metrics import TaskMetrics
from services.task.servicer_people import PeopleServicer
from services.task.servicer_queue import QueueServicer
from services.task.servicer_worker import WorkerServicer
from services.task.signals import Signals
from services.task.watch import WatchHub
from services.task.work import WorkDesk


@dataclass(frozen=True)
class Parts:
    """What the servicer stands on."""

    database: Database
    limits: TypeLimits
    creations: CreateDesk
    work: WorkDesk
    beats: BeatDesk
    watches: WatchHub
    idle: IdleReasons
    upkeep: Lane
    signals: Signals
    metrics: TaskMetrics
    workers: WorkerRegistry
    policy_changed: Callable[[], None]
    stopping: Stopping
    most_waiting: int


class TaskServicer(PeopleServicer, WorkerServicer, QueueServicer):
    """frontrow.task.v1.TaskService."""

    def __init__(self, parts: Parts) -> None:
        self._database = parts.database
        self._limits = parts.limits
        self._creations = parts.creations
        self._work = parts.work
        self._beats = parts.beats
        self._watches = parts.watches
        self._idle = parts.idle
        self._upkeep = parts.upkeep
        self._signals = parts.signals
        self._metrics = parts.metrics
        self._workers = parts.workers
        self._policy_changed = parts.policy_changed
        self._stopping = parts.stopping
        self._most_waiting = parts.most_waiting
