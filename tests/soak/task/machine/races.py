"""What happens at once: calls that race each other over several servers, and callers who go away."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

import grpc.aio
from frontrow.task.v1 import task_service_pb2 as pb
from hypothesis import strategies as st
from hypothesis.stateful import rule

from libs.common.client import error_info
from tests.integration.task.service import lasting, lease_name
from tests.soak.task.machine.core import (
    WORKERS,
    Core,
    compare,
    ends,
    finish_item,
    picks,
    said_only,
    servers,
    type_names,
    type_sets,
    workers,
)
from tests.soak.task.model import Model
from tests.soak.task.rig import SERVERS
from tests.soak.task.terms import End, Run

PASSER_BY = "passer-by"
"""A worker that holds nothing, so that its beats find nobody absent."""


@dataclass
class _Racer:
    """A call, and what it must answer when the model stands as given; it changes the model."""

    call: Callable[[], Awaitable[Any]]
    expected: Callable[[Model], Any]


_kinds = st.lists(
    st.tuples(st.sampled_from(["finish", "finish", "cancel", "retry", "beat"]), ends), min_size=2, max_size=3
)


class RaceRules(Core):
    """Rules of calls that run at the same time."""

    @rule(pick=picks, kinds=_kinds)
    def calls_about_one_run_race(self, pick: int, kinds: list[tuple[str, End]]) -> None:
        """Make calls about one run at once; some order of them must explain the answers and the rows."""
        run = self.some_run(pick)
        if run.task_id not in self.model.tasks:
            return
        racers = [self._racer(kind, run, said_only(end), number) for number, (kind, end) in enumerate(kinds)]

        async def race() -> list[Any]:
            return await asyncio.gather(*(_answer(racer.call) for racer in racers))

        answers = self.run(race())
        state = self.run(self.rig.look())
        failures: list[object] = []
        for order in itertools.permutations(range(len(racers))):
            tried = copy.deepcopy(self.model)
            expected = {number: racers[number].expected(tried) for number in order}
            if [expected[number] for number in range(len(racers))] != answers:
                failures.append(expected)
                continue
            try:
                compare(tried, state)
            except AssertionError as error:
                failures.append(error)
                continue
            self.model = tried
            self.held = [[held for held in runs if held != run] for runs in self.held]
            return
        raise AssertionError(f"no order of {kinds} explains {answers}: {failures}")

    def _racer(self, kind: str, run: Run, end: End, number: int) -> _Racer:
        client = self.client(number % SERVERS)
        task_id = str(run.task_id)
        if kind == "finish":
            return _Racer(
                lambda: client.finish(finish_item(run, end)), lambda model: [model.finish(run, end)]
            )
        if kind == "cancel":
            return _Racer(
                lambda: client.cancel(task_id),
                lambda model: None if model.cancel(model.tasks[run.task_id]) else "TASK_NOT_CANCELLABLE",
            )
        if kind == "retry":
            return _Racer(
                lambda: client.retry(task_id),
                lambda model: None if model.retry(model.tasks[run.task_id]) else "TASK_NOT_RETRYABLE",
            )
        request = pb.HeartbeatRequest(worker_id=PASSER_BY)
        request.leases.add(task_id=task_id, version=run.version, progress=end.progress or 0)
        return _Racer(
            lambda: client.stub.Heartbeat(request, timeout=20),
            lambda model: model.beat(PASSER_BY, [(run, end.progress or 0)]),
        )

    @rule(types=type_sets, counts=st.lists(st.integers(1, 4), min_size=2, max_size=4))
    def claims_race(self, types: tuple[str, ...], counts: list[int]) -> None:
        """Claim with several workers at once: nothing goes out twice, and nobody hears a false "empty"."""
        sure = {task.task_id for task in self.model.claimable(types)}
        doubtful = {task.task_id for task in self.model.perhaps_claimable(types)}

        def claim(number: int, count: int) -> Callable[[], Awaitable[pb.ClaimTasksResponse]]:
            client, worker = self.client(number % SERVERS), self.workers[number % WORKERS]
            return lambda: client.claim(types, count, worker=worker)

        async def race() -> Sequence[pb.ClaimTasksResponse]:
            return list(await asyncio.gather(*(_patiently(claim(*item)) for item in enumerate(counts))))

        answers = self.run(race())
        got = [UUID(task.id) for answer in answers for task in answer.tasks]
        assert len(set(got)) == len(got), "handed out twice"
        assert set(got) <= sure | doubtful
        due = [self.model.tasks[task_id] for task_id in sure | (doubtful & set(got))]
        wanted = self.model.let_through(due, sum(counts))
        assert len(got) == len(wanted), f"{len(got)} handed out, there were {len(wanted)}"
        for number, answer in enumerate(answers):
            self.handed_out(number % WORKERS, answer.tasks, lost=False)

    @rule(
        worker=workers, server=servers, kind=type_names, wait=st.sampled_from([0.0, 5.0]), made=st.booleans(),
        patience_ms=st.sampled_from([0, 1, 2, 4, 8]),
    )  # fmt: skip
    def claimer_goes_away(
        self, *, worker: int, server: int, kind: str, wait: float, made: bool, patience_ms: int
    ) -> None:
        """Cancel a claim in mid-air: the task is untouched, given back, or its worker's without knowing."""
        new = [self.new_id()] if made else []
        claiming = self._claim_and_leave(
            self.workers[worker], server, kind, wait=wait, new=new, patience_ms=patience_ms
        )
        heard = self.run(claiming)
        self.model.create((task_id, kind, 2, 0, 0) for task_id in new)
        for row in self.run(self.rig.look()).tasks:
            task = self.model.tasks[row["id"]]
            claims = row["version"] - task.version
            if claims == 0:
                continue
            assert task.status == "pending"
            self.model.claim(task, self.workers[worker])
            self.runs.append(Run(task.task_id, task.version))
            if str(task.task_id) in heard:
                self.held[worker].append(Run(task.task_id, task.version))
            elif claims == 2:
                self.model.give_back(task)

    async def _claim_and_leave(
        self, worker: str, server: int, kind: str, *, wait: float, new: Sequence[UUID], patience_ms: int
    ) -> set[str]:
        """Claim, create tasks meanwhile at the other server, leave; return what the answer named, if any."""
        claim = pb.ClaimTasksRequest(worker_id=worker, types=[kind], max_tasks=2, wait=lasting(wait))
        call = self.client(server).stub.ClaimTasks(claim, timeout=20)
        answer = asyncio.ensure_future(_answered(call))
        other = self.client(server + 1 - 2 * (server % SERVERS))
        for task_id in new:
            request = pb.CreateTaskRequest(task_id=str(task_id), type=kind, max_attempts=2)
            await _patiently(partial(other.stub.CreateTask, request, timeout=20))
        await asyncio.wait({answer}, timeout=patience_ms / 1000)
        call.cancel()
        response = await answer
        await self.rig.settled()
        return set() if response is None else {task.id for task in response.tasks}


async def _answered(call: Awaitable[pb.ClaimTasksResponse]) -> pb.ClaimTasksResponse | None:
    try:
        return await call
    except (asyncio.CancelledError, grpc.aio.AioRpcError):
        return None


async def _patiently(call: Callable[[], Awaitable[Any]]) -> Any:
    while True:
        try:
            return await call()
        except grpc.aio.AioRpcError as error:
            if error_info(error).reason != "DATABASE_UNAVAILABLE":
                raise


async def _answer(call: Callable[[], Awaitable[Any]]) -> Any:
    """Return what a racer's call came to, in the model's words."""
    try:
        answer = await _patiently(call)
    except grpc.aio.AioRpcError as error:
        return error_info(error).reason
    if isinstance(answer, pb.HeartbeatResponse):
        return [(lease_name(result), result.cancel_requested) for result in answer.results]
    return answer if isinstance(answer, list) else None
