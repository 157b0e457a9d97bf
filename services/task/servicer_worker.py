"""RPCs of workers: claim, beat, finish, addresses; and the operator's requeue."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from frontrow.task.v1 import task_service_pb2 as pb
from frontrow.task.v1 import task_service_pb2_grpc, work_pb2

from libs.common.db import Database
from libs.common.errors import InvalidArgument
from libs.common.interceptors.call import ServicerContext
from libs.common.lane import Lane
from libs.common.mounted import Stopping
from services.task import repository
from services.task.beats import BeatCall, BeatDesk
from services.task.convert import (
    claimed_messages,
    duration,
    ending,
    finish_result,
    seconds,
    stamp_after,
    task_message,
)
from services.task.errors import LeaseLost, TaskNotFound
from services.task.idle import IdleReasons, Reason
from services.task.limits import TypeLimits
from services.task.loops.workers import WorkerRegistry
from services.task.metrics import TaskMetrics
from services.task.repository_beat import Beat, BeatAnswer, Beaten
from services.task.repository_end import end_older, lock_policies
from services.task.signals import Signals
from services.task.states import Status
from services.task.waiters import Waiter
from services.task.work import WorkDesk

_IDLE: dict[Reason, work_pb2.IdleReason.ValueType] = {
    "empty": work_pb2.IDLE_REASON_EMPTY,
    "paused": work_pb2.IDLE_REASON_PAUSED,
    "limit": work_pb2.IDLE_REASON_LIMIT,
    "due_later": work_pb2.IDLE_REASON_DUE_LATER,
}
URL_FIELDS = ("draft_url", "video_url", "clips_url")
REQUEUE_BATCH = 500


class WorkerServicer(task_service_pb2_grpc.TaskServiceServicer):
    """What workers and operators ask for."""

    _database: Database
    _limits: TypeLimits
    _work: WorkDesk
    _most_waiting: int
    _beats: BeatDesk
    _upkeep: Lane
    _idle: IdleReasons
    _signals: Signals
    _metrics: TaskMetrics
    _workers: WorkerRegistry
    _stopping: Stopping

    async def ClaimTasks(
        self, request: pb.ClaimTasksRequest, context: ServicerContext
    ) -> pb.ClaimTasksResponse:
        """Finish runs, then claim tasks; wait for a first one when nothing was finished (domain.md 1.2)."""
        endings = [ending(item, f"finish[{index}]") for index, item in enumerate(request.finish)]
        want = _want(request)
        self._workers.saw(request.worker_id, request.types)
        wait_seconds = seconds(request.wait)
        crowded = self._work.waiting >= self._most_waiting
        if endings or want is None or wait_seconds <= 0 or crowded:
            answers, claimed = await self._work.end_and_claim(endings, want)
        else:
            answers, claimed = [], await self._work.claim_or_wait(want, wait_seconds, self._stopping.is_set)
        self._metrics.fenced("finish", answers.count("lease_lost"))
        response = pb.ClaimTasksResponse(
            tasks=claimed_messages([item.row for item in claimed], self._limits),
            finish_results=[
                finish_result(item, answer) for item, answer in zip(request.finish, answers, strict=True)
            ],
        )
        if claimed:
            response.beat_interval.CopyFrom(
                duration(self._beat_interval([item.row["type"] for item in claimed]))
            )
        elif want is not None:
            response.idle_reason = await self._idle_reason(want)
        return response

    async def _idle_reason(self, want: Waiter) -> work_pb2.IdleReason.ValueType:
        if self._stopping.is_set():
            return work_pb2.IDLE_REASON_EMPTY
        return _IDLE[await self._idle.of(want.types)]

    def _beat_interval(self, types: Sequence[str]) -> float:
        return min(self._limits.lease_seconds(task_type) for task_type in set(types)) / 3

    async def Heartbeat(self, request: pb.HeartbeatRequest, context: ServicerContext) -> pb.HeartbeatResponse:
        """Renew leases and note progress, item by item (domain.md 1.4, 1.5)."""
        beats = list(map(_beat, request.leases))
        if request.leaving:
            self._workers.left(request.worker_id)
        else:
            self._workers.saw(request.worker_id)
        answers = await self._beats.beat(BeatCall(request.worker_id, beats, request.leaving))
        self._metrics.fenced("beat", answers.count("lease_lost"))
        response = pb.HeartbeatResponse(
            results=[
                self._lease_result(lease, answer)
                for lease, answer in zip(request.leases, answers, strict=True)
            ]
        )
        types = [answer.type for answer in answers if isinstance(answer, Beaten)]
        if types:
            response.beat_interval.CopyFrom(duration(self._beat_interval(types)))
        return response

    def _lease_result(self, lease: work_pb2.Lease, answer: BeatAnswer) -> work_pb2.LeaseResult:
        if isinstance(answer, Beaten):
            return work_pb2.LeaseResult(
                task_id=lease.task_id,
                outcome=work_pb2.LEASE_OUTCOME_RENEWED,
                cancel_requested=answer.cancel_requested,
                lease_expire_time=stamp_after(answer.at, self._limits.lease_seconds(answer.type)),
            )
        lost = answer == "lease_lost"
        outcome = work_pb2.LEASE_OUTCOME_LEASE_LOST if lost else work_pb2.LEASE_OUTCOME_NOT_FOUND
        return work_pb2.LeaseResult(task_id=lease.task_id, outcome=outcome)

    async def FinishTasks(
        self, request: pb.FinishTasksRequest, context: ServicerContext
    ) -> pb.FinishTasksResponse:
        """End runs, each for itself (domain.md 1.3, 1.8, 1.11)."""
        endings = [ending(item, f"items[{index}]") for index, item in enumerate(request.items)]
        answers = await self._work.end(endings)
        self._metrics.fenced("finish", answers.count("lease_lost"))
        return pb.FinishTasksResponse(
            results=[finish_result(item, answer) for item, answer in zip(request.items, answers, strict=True)]
        )

    async def UpdateTaskUrls(
        self, request: pb.UpdateTaskUrlsRequest, context: ServicerContext
    ) -> pb.UpdateTaskUrlsResponse:
        """Store addresses of results on a live run."""
        task_id = UUID(request.task_id)
        urls = _urls(request)
        async with self._database.begin() as session:
            row = await repository.update_urls(session, task_id, request.version, urls)
            if row is None:
                known = await repository.get(session, task_id)
                await repository.count_late_write(session, task_id, request.version)
        if row is None:
            if known is None:
                raise TaskNotFound.of(request.task_id)
            self._metrics.fenced("urls")
            raise LeaseLost.of(request.task_id, request.version)
        self._signals.tell([task_id], {})
        return pb.UpdateTaskUrlsResponse(task=task_message(row, self._limits, with_payload=False))

    async def RequeueStaleTasks(
        self, request: pb.RequeueStaleTasksRequest, context: ServicerContext
    ) -> pb.RequeueStaleTasksResponse:
        """Take back silent runs of a type, in batches."""
        older_than = seconds(request.older_than)
        if older_than <= 0:
            raise InvalidArgument.of_field("older_than", "must be more than 0")
        response = pb.RequeueStaleTasksResponse()
        while True:
            async with self._upkeep.transaction() as connection:
                await lock_policies(connection, [request.type])
                ended = await end_older(connection, request.type, seconds=older_than, most=REQUEUE_BATCH)
            self._signals.ended(ended)
            response.requeued += sum(task.status == Status.PENDING for task in ended)
            response.abandoned += sum(task.status == Status.FAILED for task in ended)
            if len(ended) < REQUEUE_BATCH:
                return response


def _want(request: pb.ClaimTasksRequest) -> Waiter | None:
    if request.max_tasks == 0:
        return None
    if not request.types:
        raise InvalidArgument.of_field("types", "must name at least one type when max_tasks is more than 0")
    return Waiter(request.worker_id, tuple(sorted(set(request.types))), request.max_tasks)


def _urls(request: pb.UpdateTaskUrlsRequest) -> dict[str, str]:
    paths = list(request.update_mask.paths)
    unknown = sorted(set(paths) - set(URL_FIELDS))
    if unknown:
        raise InvalidArgument.of_field(
            "update_mask", f"names {', '.join(unknown)}; it may name {', '.join(URL_FIELDS)}"
        )
    if not paths:
        paths = [name for name in URL_FIELDS if getattr(request, name)]
    return {name: getattr(request, name) for name in paths}


def _beat(lease: work_pb2.Lease) -> Beat:
    reported = lease.HasField("progress")
    done = min(10_000, lease.progress * 100 + lease.progress_hundredths) if reported else None
    return Beat(UUID(lease.task_id), lease.version, done)
