"""Callers of the probe at a pace of their own, and what they saw."""

import asyncio
import time
from dataclasses import dataclass, field

import grpc

from libs.common.client import error_info
from tests.wire.common.probe import Request


@dataclass
class Seen:
    """What the callers saw: how long each answer and each refusal took, in seconds."""

    answered: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    others: list[grpc.aio.AioRpcError] = field(default_factory=list)
    hints: set[tuple[str, float | None]] = field(default_factory=set)

    async def call(self, stub, **fields) -> None:
        """Make a call and note what came of it."""
        began = time.monotonic()
        try:
            await stub.Ask(Request(**fields), timeout=20)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                self.others.append(error)
            detail = error_info(error)
            self.hints.add((detail.reason, detail.retry_delay_seconds))
            self.refused.append(time.monotonic() - began)
        else:
            self.answered.append(time.monotonic() - began)


async def offer(stub, seen: Seen, *, a_second: float, seconds: float, **fields) -> None:
    """Call at an even pace, whatever becomes of the calls; return when all have ended."""
    calls = []
    began = time.monotonic()
    for number in range(round(a_second * seconds)):
        await asyncio.sleep(began + number / a_second - time.monotonic())
        calls.append(asyncio.create_task(seen.call(stub, **fields)))
    await asyncio.gather(*calls)
