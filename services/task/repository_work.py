"""End runs and claim tasks by one statement, which is a transaction by itself."""

from __future__ import annotations

from collections.abc import Sequence

from libs.common.lane import Connection
from services.task import statements_work
from services.task.repository_claim import Look, Marks, looked
from services.task.repository_end import Backoff, EndedRow, Ending, arrange, columns
from services.task.states import End


def makes_room_at_once(ending: Ending, backoff: Backoff) -> bool:
    """Tell whether a task may be claimable at the very end of its run: a claim with it would pass it over."""
    if ending.ended_as is End.COMPLETED:
        return False
    pause = backoff.base_seconds if ending.ended_as is End.FAILED else ending.pause_seconds
    return pause <= 0


async def end_and_claim(
    connection: Connection, endings: Sequence[Ending], backoff: Backoff, wanted: tuple[str, Sequence[str]],
    marks: Marks,
) -> tuple[list[EndedRow], Look]:  # fmt: skip
    """End each run that is live, then claim tasks of the type wanted, slot i for worker i; one transaction.

    `settle` then answers for the endings. Precondition beside those of `end_given` and `first_look`: no
    ending makes room at once, no policy is set.
    """
    task_type, workers = wanted
    order = arrange(endings)
    mark = marks.begin(task_type)
    rows = await connection.fetch(
        statements_work.END_AND_CLAIM, *columns(endings, order), *backoff,
        task_type, len(workers), mark, list(workers), False,
    )  # fmt: skip
    told = [tuple(row)[2:7] for row in rows if row["slot"] is None]
    return [EndedRow(order[n - 1], *rest) for n, *rest in told], looked(rows, task_type, marks, mark=mark)
