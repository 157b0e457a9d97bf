"""One flush in flight; what arrives meanwhile shares the next.

No timer: an idle caller waits for nobody, and under load the batches grow by themselves.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import asyncpg
import structlog

from libs.common.db import is_bad_data, sqlstate
from libs.common.loops import is_cancelled

log = structlog.get_logger(__name__)

Item = TypeVar("Item")
Answer = TypeVar("Answer")

BROKEN = "a flush ended without an answer"


def spoilt_by_an_item(error: BaseException) -> bool:
    """Tell whether a shared statement failed for one item: what it brought along, or a lock it waited for."""
    code = sqlstate(error) or ""
    return is_bad_data(error) or code.startswith("23") or code in {"40P01", "55P03"}


def interrupted(error: asyncio.CancelledError) -> Exception:
    """Return what callers are told of a flush that was cancelled by nobody: its connection went away."""
    told = asyncpg.ConnectionDoesNotExistError("the flush was interrupted")
    told.__cause__ = error
    return told


class Coalescer(Generic[Item, Answer]):
    """Collects single calls into shared flushes.

    `flush` takes the items of a batch and returns their answers in order; it owns its transaction. A batch
    that one item spoils is done again item by item, so that only that item's caller sees the error. A batch
    weighs `most` at most by `weigh` (each item one, if not said), or is a single item.
    """

    def __init__(
        self,
        flush: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
        *,
        most: int = 1000,
        weigh: Callable[[Item], int] = lambda _: 1,
    ) -> None:
        self._flush = flush
        self._most = most
        self._weigh = weigh
        self._waiting: deque[tuple[Item, asyncio.Future[Answer]]] = deque()
        self._running: asyncio.Task[None] | None = None

    async def submit(self, item: Item) -> Answer:
        """Put the item into the next flush and return its answer.

        A caller that is cancelled doesn't take the flush down with it; its item may have been written.
        """
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._running is None:
            # Nobody's task: it must not inherit the first caller's deadline, actor or span.
            self._running = asyncio.create_task(self._run(), context=contextvars.Context())
        return await future

    async def drained(self) -> None:
        """Wait until no flush is in flight."""
        if self._running is not None:
            await asyncio.wait({self._running})

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._answer_all(self._next())
        finally:
            self._running = None

    def _next(self) -> list[tuple[Item, asyncio.Future[Answer]]]:
        """Take those who have waited longest, as many as one flush may hold."""
        batch = [self._waiting.popleft()]
        weight = self._weigh(batch[0][0])
        while self._waiting and (weight := weight + self._weigh(self._waiting[0][0])) <= self._most:
            batch.append(self._waiting.popleft())
        return batch

    async def _answer_all(self, batch: Sequence[tuple[Item, asyncio.Future[Answer]]]) -> None:
        """Answer, and leave no caller of this batch without one, whatever happens."""
        try:
            await self._answer(batch)
        except Exception:  # a fault in here must not end the flushes for everybody
            log.exception("coalesce.flush_broke", items=len(batch))
        finally:
            _refuse(batch, RuntimeError(BROKEN))

    async def _answer(self, batch: Sequence[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._flush([item for item, _ in batch])
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            _refuse(batch, interrupted(error))
            return
        except Exception as error:  # noqa: BLE001 - handed to the callers, each of whom raises it
            if len(batch) > 1 and spoilt_by_an_item(error):
                for single in batch:
                    await self._answer([single])
                return
            _refuse(batch, error)
            return
        for (_, future), answer in zip(batch, answers, strict=True):
            if not future.done():
                future.set_result(answer)


def _refuse(batch: Sequence[tuple[Item, asyncio.Future[Answer]]], error: Exception) -> None:
    """Raise the error in every caller that has no answer yet."""
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
