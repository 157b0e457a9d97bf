"""One call at the desk for work, and how it is answered or refused."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from services.task.repository_claim import Claimed
from services.task.repository_end import REPLY_LOST, Answer, Ending
from services.task.states import End
from services.task.waiters import Waiter


@dataclass(eq=False, slots=True)
class Job:
    """Runs to end and, after that, perhaps tasks to claim at once."""

    endings: Sequence[Ending]
    waiter: Waiter | None
    answers: asyncio.Future[list[Answer]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def answer(self, answers: list[Answer]) -> None:
        """Tell the caller, if it is still there."""
        if not self.answers.done():
            self.answers.set_result(answers)

    def refuse(self, error: Exception) -> None:
        """Raise the error in the caller if it has no answer yet."""
        if not self.answers.done():
            self.answers.set_exception(error)
            if self.waiter is not None and not self.waiter.delivery.done():
                self.waiter.delivery.cancel()


def refuse_all(jobs: Sequence[Job], error: Exception) -> None:
    """Raise the error in every caller that has no answer yet."""
    for job in jobs:
        job.refuse(error)


def giving_back(items: Sequence[Claimed]) -> Job:
    """Return the job that releases what was claimed for somebody who couldn't be told."""
    job = Job(
        [Ending(item.row["id"], item.row["version"], End.RELEASED, reason=REPLY_LOST) for item in items], None
    )
    # Nobody waits for the answer; an error is the sweep's to mend.
    job.answers.add_done_callback(lambda done: done.cancelled() or done.exception())
    return job
