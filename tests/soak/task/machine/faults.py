"""What goes wrong: time passes, nobody listens, processes die, connections break; and the last look."""

from __future__ import annotations

from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.soak.task.machine.core import TYPES, Core, servers, workers
from tests.soak.task.terms import LONGEST_LEASE, STEP, TERMINAL, End, Run


class FaultRules(Core):
    """Rules of time and of crashes."""

    def _listen(self, seconds: float = STEP) -> None:
        self.run(self.rig.step_clock(seconds))
        self.model.advance(seconds)
        self.run(self.rig.sweep())
        self.model.sweep()

    @rule(steps=st.integers(1, 8))
    def time_passes(self, steps: int) -> None:
        """Let time pass while a server listens and sweeps."""
        for _ in range(steps):
            self._listen()

    @rule(steps=st.integers(3, 15))
    def outage(self, steps: int) -> None:
        """Let time pass while nobody could beat: afterwards nothing may be taken back at once."""
        self.run(self.rig.step_clock(STEP * steps))
        self.model.advance(STEP * steps)

    @rule(steps=st.sampled_from([-1, 1, 3, 15]))
    def clock_jumps(self, steps: int) -> None:
        """Let the database's clock jump alone: what it makes look silent was not listened for."""
        self.run(self.rig.jump_clock(STEP * steps))
        self.model.jump(STEP * steps)

    @rule()
    def sweep(self) -> None:
        self.run(self.rig.sweep())
        self.model.sweep()

    @rule()
    def sweeper_starts_anew(self) -> None:
        self.run(self.rig.restart_sweeper())
        self.model.listen_anew()

    @rule()
    def old_tasks_are_deleted(self) -> None:
        """Delete what has been finished for so long that its id may be forgotten."""
        self.run(self.rig.retain())
        self.model.retain()

    @rule(worker=workers)
    def worker_crashes(self, worker: int) -> None:
        """Forget all that the worker held; its successor has another id."""
        self.held[worker] = []
        self.workers[worker] += "'"

    @rule(server=servers, dice=st.integers(0, 9))
    def server_restarts(self, server: int, dice: int) -> None:
        if dice == 0:
            self.run(self.rig.restart(server))

    @rule(dice=st.integers(0, 3))
    def connections_break(self, dice: int) -> None:
        """Terminate every connection to the database; the next calls mend that by themselves."""
        if dice == 0:
            self.run(self.rig.cut())

    def teardown(self) -> None:
        """Let everything come to an end: whatever happened, each task can still be brought there."""
        for _ in range(LONGEST_LEASE // STEP + 2):
            self._listen(2 * STEP)
        while True:
            response = self.call(lambda: self.client(0).claim(TYPES, 100, worker=self.workers[0]))
            self.handed_out(0, response.tasks, lost=False)
            if not response.tasks:
                break
            items = [(Run(UUID(task.id), task.version), End("completed")) for task in response.tasks]
            expected = [self.model.finish(run, end) for run, end in items]
            assert self.finish_all(1, items) == expected
        self.database_is_as_the_model_says()
        left = [task for task in self.model.tasks.values() if task.status not in TERMINAL]
        assert not left, f"never ended: {left}"
