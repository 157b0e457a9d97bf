"""Callers in a process of their own: as many as a server can bear, or at a pace of their own.

Run by `tests.bench.processes.child`; `python -m tests.soak.system.load` reads what to do from stdin.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc.aio
from frontrow.client import METHOD, sign
from frontrow.ingest.v1 import gallery_pb2, ingest_service_pb2, ingest_service_pb2_grpc
from frontrow.review.v1 import key_service_pb2, key_service_pb2_grpc
from frontrow.task.v1 import task_service_pb2, task_service_pb2_grpc

from libs.common.client import error_info
from libs.common.credentials import channel_credentials
from libs.common.interceptors.admission import RETRY_SECONDS
from libs.common.interceptors.sojourn import timeout_metadata
from libs.common.settings import TransportSettings
from tests.bench.child import Arguments, serve, spread

CALL_SECONDS = 30.0
BEAT_SECONDS = 0.1
CALLERS = 64
IMAGES = 20

# Refused by the server's own code, or dropped by gRPC before that hears of it.
_OUTCOMES = {grpc.StatusCode.RESOURCE_EXHAUSTED: "refused", grpc.StatusCode.CANCELLED: "dropped"}
_TIMEOUT = (timeout_metadata(CALL_SECONDS),)

Call = Callable[[], Awaitable[object]]


@dataclass
class Tally:
    """What callers saw, in seconds by outcome, and the words of what was refused."""

    took: dict[str, list[float]] = field(default_factory=dict)
    told: Counter[str] = field(default_factory=Counter)
    _words: dict[tuple[grpc.StatusCode, str | None], str] = field(default_factory=dict)

    async def make(self, call: Call) -> bool:
        """Make a call and note what came of it; tell whether it was answered."""
        began = time.perf_counter()
        outcome = "answered"
        try:
            await call()
        except grpc.aio.AioRpcError as error:
            outcome = _OUTCOMES.get(error.code(), "failed")
            self.told[self._words_of(error)] += 1
        self.took.setdefault(outcome, []).append(time.perf_counter() - began)
        return outcome == "answered"

    def _words_of(self, error: grpc.aio.AioRpcError) -> str:
        """Return what an error says; read once of those that say the same, for callers must cost little."""
        key = (error.code(), error.details())
        if key not in self._words:
            detail = error_info(error)
            words = f"{error.code().name} {detail.reason or detail.message} {detail.retry_delay_seconds}"
            self._words[key] = words
        return self._words[key]

    def facts(self, seconds: float) -> dict[str, Any]:
        """Return rates and spans of each outcome."""
        found: dict[str, Any] = {
            outcome: {"a_second": round(len(took) / seconds, 1), **spread(took)}
            for outcome, took in self.took.items()
        }
        return found | {"told": dict(self.told)}


async def measure(arguments: Arguments) -> dict[str, Any]:
    """Call for so many seconds: `a_second` calls at an even pace, or as many as `CALLERS` manage for 0."""
    channel = _channel(arguments["address"])
    work = await _call(arguments["what"], channel)
    tally, beats = Tally(), Tally()
    beating = asyncio.create_task(_beat(channel, beats)) if arguments["what"] == "task" else None
    began = time.perf_counter()
    if arguments["a_second"]:
        await _at_a_pace(work, tally, arguments["a_second"], arguments["seconds"])
    else:
        await _as_fast_as_it_goes(work, tally, arguments["seconds"])
    seconds = time.perf_counter() - began
    if beating is not None:
        beating.cancel()
        await asyncio.wait({beating})
    await channel.close()
    return {"seconds": seconds, "work": tally.facts(seconds), "beats": beats.facts(seconds)}


def _channel(address: str) -> grpc.aio.Channel:
    """Connect without what our own callers note of each call: they share the processors with the server."""
    credentials = channel_credentials(address, TransportSettings.loopback_only())
    assert credentials is not None
    return grpc.aio.secure_channel(address, credentials)


async def _call(what: str, channel: grpc.aio.Channel) -> Call:
    if what == "ingest":
        return await _submit(channel)
    if what == "task":
        create = task_service_pb2_grpc.TaskServiceStub(channel).CreateTask
        request = task_service_pb2.CreateTaskRequest(type="load")
        return lambda: create(request, timeout=CALL_SECONDS, metadata=_TIMEOUT)
    listing = key_service_pb2_grpc.KeyServiceStub(channel).ListBrandKeys
    asked = key_service_pb2.ListBrandKeysRequest(page_size=20)
    return lambda: listing(asked, timeout=CALL_SECONDS, metadata=_TIMEOUT)


async def _submit(channel: grpc.aio.Channel) -> Call:
    """Return the call of a new spider; each is another article, signed anew, as no nonce is good twice."""
    spiders = ingest_service_pb2_grpc.IngestServiceStub(channel)
    spider = ingest_service_pb2.CreateSpiderRequest(name=f"load {uuid.uuid4()}")
    created: list[Any] = []

    async def create() -> None:
        created.append(await spiders.CreateSpider(spider))

    for _ in range(30):
        if await Tally().make(create):
            break
        await asyncio.sleep(RETRY_SECONDS)  # others call already
    key = created[0]
    submit: Any = channel.unary_unary(
        METHOD, response_deserializer=ingest_service_pb2.SubmitGalleryResponse.FromString
    )
    request = ingest_service_pb2.SubmitGalleryRequest()
    gallery = request.gallery
    gallery.kind, gallery.title, gallery.source = gallery_pb2.GALLERY_KIND_RUNWAY, "Show", "load"
    gallery.brand, gallery.season_code = "Acne Studios", "FW26"
    for position in range(1, IMAGES + 1):
        gallery.images.add(url=f"https://load.example/look-{position}.jpg", position=position)

    def call() -> Any:
        request.request_id = str(uuid.uuid4())
        gallery.source_url = f"https://load.example/shows/{request.request_id}"
        raw = request.SerializeToString()
        signed = sign(raw, key_id=key.key_id, secret=key.secret)
        return submit(raw, metadata=(*signed, *_TIMEOUT), timeout=CALL_SECONDS)

    return call


async def _beat(channel: grpc.aio.Channel, tally: Tally) -> None:
    """Beat as a worker does, and end runs and claim others as it does."""
    stub = task_service_pb2_grpc.TaskServiceStub(channel)
    beat = task_service_pb2.HeartbeatRequest(worker_id="load")
    claim = task_service_pb2.ClaimTasksRequest(worker_id="load", types=["load"], max_tasks=1)
    while True:
        await tally.make(lambda: stub.Heartbeat(beat, timeout=CALL_SECONDS))
        await tally.make(lambda: _turn(stub, claim))
        await asyncio.sleep(BEAT_SECONDS)


async def _turn(
    stub: task_service_pb2_grpc.TaskServiceAsyncStub, claim: task_service_pb2.ClaimTasksRequest
) -> None:
    """End what was claimed last and claim one more."""
    claimed = await stub.ClaimTasks(claim, timeout=CALL_SECONDS)
    del claim.finish[:]
    for task in claimed.tasks:
        claim.finish.add(task_id=task.id, version=task.version).completed.SetInParent()


async def _at_a_pace(call: Call, tally: Tally, a_second: float, seconds: float) -> None:
    calls: set[asyncio.Task[bool]] = set()
    began = time.perf_counter()
    for number in range(round(a_second * seconds)):
        await asyncio.sleep(began + number / a_second - time.perf_counter())
        made = asyncio.create_task(tally.make(call))
        calls.add(made)
        made.add_done_callback(calls.discard)
    if calls:
        await asyncio.wait(calls)


async def _as_fast_as_it_goes(call: Call, tally: Tally, seconds: float) -> None:
    ends = time.perf_counter() + seconds

    async def caller() -> None:
        while time.perf_counter() < ends:
            if not await tally.make(call):
                await asyncio.sleep(RETRY_SECONDS)

    await asyncio.gather(*(caller() for _ in range(CALLERS)))


if __name__ == "__main__":
    serve(measure)
