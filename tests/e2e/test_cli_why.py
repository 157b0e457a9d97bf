"""`frontrow why` against the shared real instance: every reason, whose lease it is, and run by run what was.

Queues have names of their own here, so that the test is their only worker.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from libs.common.testing import eventually
from tests.e2e.process import Process
from tests.integration.task.service import Tasks, completed, failed, new_type

pytestmark = pytest.mark.timeout(300)  # whole processes


@pytest.fixture
async def tasks(instance: Process) -> AsyncIterator[Tasks]:
    """Speak to the instance's task server as workers and creators do."""
    client = Tasks(instance.addresses()["task"])
    yield client
    await client.close()


def _why(instance: Process, task_id: str) -> str:
    """Return what the command says, in one line of single spaces."""
    return " ".join(instance.cli("why", task_id).stdout.split())


async def test_why_names_every_reason_for_which_a_task_waits_at_once(instance: Process, tasks: Tasks) -> None:
    kind = new_type()
    running = await tasks.create(kind)
    [run] = (await tasks.claim(kind, worker="busy")).tasks
    assert run.id == running.id
    ahead, last = await tasks.create(kind, priority=1), await tasks.create(kind)
    instance.cli("queues", "limit", kind, "1")
    instance.cli("queues", "pause", kind)
    told = _why(instance, last.id)
    assert told.startswith("It waits: ")
    for reason in (
        f"type {kind} is paused",
        f"1 tasks of type {kind} run, its limit is 1",
        "1 tasks of its type are ahead of it",
    ):
        assert reason in told
    for advice in (f"frontrow queues resume {kind}", f"frontrow queues limit {kind} N"):
        assert advice in told
    assert "ahead of it" not in _why(instance, ahead.id)
    kinds = {reason["kind"] for reason in instance.cli_json("why", last.id)["hindrances"]}
    assert kinds >= {f"HINDRANCE_KIND_{name}" for name in ("PAUSED", "LIMIT", "QUEUED")}


async def test_why_says_whose_lease_a_running_task_is_and_how_old(instance: Process, tasks: Tasks) -> None:
    kind = new_type()
    made = await tasks.create(kind, max_attempts=3)
    [run] = (await tasks.claim(kind, worker="the-holder")).tasks
    await tasks.beat((run, 40), worker="the-holder")
    told = _why(instance, made.id)
    assert "It runs at 40 % on worker the-holder, attempt 1 of 3, last heard of" in told
    assert "its lease holds for another" in told
    await tasks.cancel(made.id)
    assert "Somebody asked to cancel it." in _why(instance, made.id)

    async def silent() -> bool:
        return "last heard of 2 s ago" in _why(instance, made.id)

    await eventually(silent, 30)


async def test_why_tells_run_by_run_what_lost_a_task_and_how_often_the_lost_ones_still_wrote(
    instance: Process, tasks: Tasks
) -> None:
    kind = new_type()
    made = await tasks.create(kind, max_attempts=3)
    runs = []
    for worker in ("first", "second"):
        [run] = (await tasks.claim(kind, wait=10, worker=worker)).tasks
        runs.append(run)
        await tasks.requeue(kind, 0.001)
    for _ in range(3):
        assert await tasks.finish(completed(runs[0]), worker="first") == ["LEASE_LOST"]
    [last] = (await tasks.claim(kind, wait=10, worker="third")).tasks
    assert await tasks.finish(failed(last, "the sleeve is torn"), worker="third") == ["FAILED"]
    told = instance.cli_json("why", made.id)
    assert [
        (run["worker_id"], run["ended_as"], run["outcome"], run["reason"], run.get("late_writes", 0))
        for run in told["runs"]
    ] == [
        ("first", "lost", "requeued", "STALE", 3),
        ("second", "lost", "requeued", "STALE", 0),
        ("third", "failed", "failed", "FAILED", 0),
    ]
    said = _why(instance, made.id)
    assert "after 3 runs, it was given up: the sleeve is torn" in said
    assert "3 late writes of ended runs came in and changed nothing." in said
    assert f"frontrow tasks retry {made.id}" in said


async def test_why_tells_that_a_task_was_abandoned(instance: Process, tasks: Tasks) -> None:
    kind = new_type()
    made = await tasks.create(kind, max_attempts=1)
    await tasks.claim(kind, worker="crasher")
    await tasks.requeue(kind, 0.001)
    assert "its workers were lost each time" in _why(instance, made.id)
