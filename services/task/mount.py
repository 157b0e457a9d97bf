"""Wire the task context: lanes, desks, loops and the servicer."""

from __future__ import annotations

import grpc
from frontrow.task.v1 import task_service_pb2, task_service_pb2_grpc

from libs.common.db import Database
from libs.common.loops import Periodic
from libs.common.mounted import Mounted, Stopping
from libs.common.settings import CommonSettings
from services.task.beats import BeatDesk
from services.task.bulletin import Bulletin
from services.task.creations import CreateDesk
from services.task.idle import IdleReasons
from services.task.lane import Lane
from services.task.limits import TypeLimits
from services.task.loops.due import DueTasks
from services.task.loops.retention import Retention
from services.task.loops.sweep import Sweep
from services.task.repository_end import Backoff
from services.task.servicer import Parts, TaskServicer
from services.task.settings import TaskSettings
from services.task.signals import Signals
from services.task.watch import WatchHub
from services.task.work import WorkDesk

SERVICE = task_service_pb2.DESCRIPTOR.services_by_name["TaskService"].full_name


async def mount(settings: TaskSettings, common: CommonSettings) -> Mounted:
    """Return what the task context puts on its server. The schema must be up to date; nothing connects."""
    database = Database(common.database, "frontrow-task")
    lanes = {
        name: Lane(common.database, f"frontrow-task-{name}") for name in ("work", "beat", "create", "upkeep")
    }
    limits = TypeLimits(settings)
    signals = Signals()
    work = WorkDesk(
        lanes["work"], Backoff(settings.retry_base_seconds, settings.retry_longest_seconds), signals.worked
    )
    beats = BeatDesk(
        lanes["beat"],
        lost_claim_seconds=settings.lost_claim_seconds,
        on_rise=signals.rose,
        on_ended=signals.ended,
    )
    creations = CreateDesk(lanes["create"], on_created=signals.created)
    watches = WatchHub(database, poll_seconds=settings.poll_seconds, listening=lambda: bulletin.listening)
    bulletin = Bulletin(common.database, on_wake=work.signal, on_changed=watches.changed)
    signals.connect(wake=work.signal, changed=watches.changed, publish=bulletin.publish)
    stopping = Stopping()
    parts = Parts(
        database=database,
        limits=limits,
        creations=creations,
        work=work,
        beats=beats,
        watches=watches,
        idle=IdleReasons(database),
        upkeep=lanes["upkeep"],
        signals=signals,
        stopping=stopping,
    )

    async def probe() -> None:
        work.probe()

    def on_stopping() -> None:
        stopping.set()
        work.dismiss()
        watches.stop()

    async def close() -> None:
        for desk in (work, beats, creations):
            await desk.drained()
        for lane in lanes.values():
            await lane.close()
        await database.close()

    def register(server: grpc.aio.Server) -> None:
        task_service_pb2_grpc.add_TaskServiceServicer_to_server(TaskServicer(parts), server)

    upkeep = lanes["upkeep"]
    return Mounted(
        register=register,
        service_names=(SERVICE,),
        loops=(
            bulletin,
            Periodic("task:poll", settings.poll_seconds, probe),
            Sweep(upkeep, limits, signals.ended, interval_seconds=settings.sweep_interval_seconds),
            DueTasks(
                upkeep, lambda due: signals.tell([], due), interval_seconds=settings.due_interval_seconds
            ),
            Retention(
                upkeep,
                keep_days=settings.keep_finished_days,
                interval_seconds=settings.retention_interval_seconds,
            ),
        ),
        close=close,
        on_stopping=on_stopping,
        long_polls=(f"/{SERVICE}/ClaimTasks",),
    )
