"""Progress only rises, is sent in the background, and a refusal stops the run."""

from libs.common.testing import eventually
from services.asr.worker.peers import AsrUnreachable, RunLost
from services.asr.worker.progress import Progress


async def test_out_of_order_reports_are_dropped_and_the_newest_is_sent() -> None:
    sent: list[int] = []
    told: list[float] = []

    async def send(percent: int) -> None:
        sent.append(percent)

    async with Progress(send, told.append, lambda _: None) as progress:
        for done in (0, 50_000, 20_000, 99_000, 100_000):
            progress.position(done, 100_000)
        await eventually(lambda: sent[-1:] == [95])
    assert sent == sorted(sent)
    assert told == [5, 50, 94, 95]


async def test_the_task_is_told_less_than_a_per_cent_and_the_material_whole_ones() -> None:
    sent: list[int] = []
    told: list[float] = []

    async def send(percent: int) -> None:
        sent.append(percent)

    async with Progress(send, told.append, lambda _: None) as progress:
        for percent in (95, 95.4, 95.2, 95.8, 96.2, 98.9):
            progress.report(percent)
        await eventually(lambda: sent[-1:] == [98])
    assert told == [95, 95.4, 95.8, 96.2, 98.9]
    assert progress.percent == 98


async def test_a_report_that_fails_is_only_a_warning() -> None:
    calls: list[int] = []

    async def send(percent: int) -> None:
        calls.append(percent)
        raise AsrUnreachable("no")

    lost: list[Exception] = []
    async with Progress(send, lambda _: None, lost.append) as progress:
        progress.report(10)
        await eventually(lambda: calls == [10])
        progress.report(20)
        await eventually(lambda: calls == [10, 20])
    assert lost == []


async def test_a_lost_lease_is_told_at_once() -> None:
    async def send(percent: int) -> None:
        raise RunLost("gone")

    lost: list[Exception] = []
    async with Progress(send, lambda _: None, lost.append) as progress:
        progress.report(10)
        await eventually(lambda: len(lost) == 1)
