"""What workers do: claim, beat, finish, store addresses; good ones, forgetful ones and zombies."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from frontrow.task.v1 import task_service_pb2 as pb
from frontrow.task.v1 import work_pb2
from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.integration.task.service import lease_name, outcome_name
from tests.soak.task.machine.core import (
    Core,
    ends,
    finish_item,
    percents,
    picks,
    said_only,
    servers,
    type_sets,
    workers,
)
from tests.soak.task.terms import End, Run

_losses = st.sampled_from([False, False, True])
_counts = st.sampled_from([1, 1, 1, 2, 3, 10])


class WorkerRules(Core):
    """Rules of workers."""

    @rule(
        worker=workers, server=servers, types=type_sets, count=_counts, lost=_losses, fresh=st.booleans(),
        finish=st.lists(st.tuples(picks, ends), max_size=2),
    )  # fmt: skip
    def claim(
        self, *, worker: int, server: int, types: tuple[str, ...], count: int, lost: bool,
        fresh: bool, finish: list[tuple[int, End]],
    ) -> None:  # fmt: skip
        named = [(self._mostly_held(worker, pick), said_only(end)) for pick, end in finish]
        outcomes = [self.model.finish(run, end) for run, end in named]
        if fresh:
            self.rig.forget_why(server)
        response = self.call(
            lambda: self.client(server).claim(
                types, count, worker=self.workers[worker], finish=[finish_item(*item) for item in named]
            )
        )
        assert [outcome_name(result.outcome) for result in response.finish_results] == outcomes
        self._forget(named)
        self._check_claim(types, count, [UUID(task.id) for task in response.tasks])
        self._check_why(types, response, fresh=fresh)
        self.handed_out(worker, response.tasks, lost=lost)

    def _check_claim(self, types: Sequence[str], count: int, got: list[UUID]) -> None:
        """Check that exactly the first tasks in order were handed out; a short pause may just be over."""
        sure = self.model.claimable(types)
        doubtful = [task for task in self.model.perhaps_claimable(types) if task.task_id in got]
        first = self.model.let_through((*sure, *doubtful), count)
        assert len(got) == len(first), f"{len(got)} handed out, there were {len(first)}"
        handed = [self.model.tasks[task_id].order for task_id in got]
        assert sorted(handed) == [task.order for task in first], "not the oldest were handed out"

    def _check_why(self, types: Sequence[str], response: pb.ClaimTasksResponse, *, fresh: bool) -> None:
        """Check what is said of an empty claim: a word always, the right one unless it is an older answer."""
        said = work_pb2.IdleReason.Name(response.idle_reason).removeprefix("IDLE_REASON_")
        assert (said == "UNSPECIFIED") == bool(response.tasks)
        # A short pause may end between the claim and the question.
        if fresh and not response.tasks and not self.model.perhaps_claimable(types):
            assert said == self.model.why_idle(types)

    @rule(
        worker=workers, server=servers, omitted=st.sampled_from([0, 0, 0, 1, 2, 3]), progress=percents,
        also=st.lists(picks, max_size=2),
    )  # fmt: skip
    def beat(self, worker: int, server: int, omitted: int, progress: int | None, also: list[int]) -> None:
        """Beat for what the worker holds, perhaps not all of it, and for runs that aren't its own."""
        named = [(run, progress) for run in self.held[worker][omitted:]]
        named += [(run, progress) for run in map(self.some_run, also) if (run, progress) not in named]
        expected = self.model.beat(self.workers[worker], named)
        assert self._say(worker, server, named) == expected
        lost = {run for (run, _), (outcome, _) in zip(named, expected, strict=True) if outcome != "RENEWED"}
        self.held[worker] = [run for run in self.held[worker] if run not in lost]

    @rule(worker=workers, server=servers, omitted=st.sampled_from([0, 0, 1, 2]))
    def goodbye(self, worker: int, server: int, omitted: int) -> None:
        """Leave: what isn't named goes back at once. What is named waits out its lease: nobody is at it."""
        named: list[tuple[Run, int | None]] = [(run, None) for run in self.held[worker][omitted:]]
        expected = self.model.leave(self.workers[worker], named)
        assert self._say(worker, server, named, leaving=True) == expected
        self.held[worker] = []
        self.workers[worker] += "'"

    def _say(
        self, worker: int, server: int, named: Sequence[tuple[Run, int | None]], *, leaving: bool = False
    ) -> list[tuple[str, bool]]:
        request = pb.HeartbeatRequest(
            worker_id=self.workers[worker],
            leases=[
                work_pb2.Lease(task_id=str(run.task_id), version=run.version, progress=progress)
                for run, progress in named
            ],
            leaving=leaving,
        )
        response = self.call(lambda: self.client(server).stub.Heartbeat(request, timeout=20))
        return [(lease_name(result), result.cancel_requested) for result in response.results]

    @rule(worker=workers, server=servers, items=st.lists(st.tuples(picks, ends), min_size=1, max_size=3))
    def finish(self, worker: int, server: int, items: list[tuple[int, End]]) -> None:
        """End runs, perhaps the same one twice, perhaps long after they were over."""
        named = [(self._mostly_held(worker, pick), said_only(end)) for pick, end in items]
        expected = [self.model.finish(run, end) for run, end in named]
        assert self.finish_all(server, named) == expected
        self._forget(named)

    @rule(
        server=servers, pick=picks, url=st.sampled_from(["", "a", "b"]),
        name=st.sampled_from(["draft_url", "video_url", "clips_url"]),
    )  # fmt: skip
    def store_address(self, server: int, pick: int, name: str, url: str) -> None:
        run = self.some_run(pick)
        task = self.model.live(run)
        request = pb.UpdateTaskUrlsRequest(task_id=str(run.task_id), version=run.version)
        setattr(request, name, url)
        request.update_mask.paths.append(name)
        stub = self.client(server).stub
        if task is not None:
            self.call(lambda: stub.UpdateTaskUrls(request, timeout=20))
            task.urls = {**task.urls, name: url} if url else {k: v for k, v in task.urls.items() if k != name}
            return
        told = self.refused(lambda: stub.UpdateTaskUrls(request, timeout=20))
        known = run.task_id in self.model.tasks
        assert told[:2] == (("ABORTED", "LEASE_LOST") if known else ("NOT_FOUND", "TASK_NOT_FOUND"))

    def _mostly_held(self, worker: int, pick: int) -> Run:
        held = self.held[worker]
        return held[pick % len(held)] if held and pick % 4 else self.some_run(pick)

    def _forget(self, named: Sequence[tuple[Run, End]]) -> None:
        answered = {run for run, _ in named}
        self.held = [[run for run in held if run not in answered] for held in self.held]
