"""What `frontrow top` computes and draws."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from cli.top import draw
from cli.top.look import Picture
from cli.top.rates import Flows, Level


def told(flows: Flows, task_type: str = "asr") -> tuple[float | None, ...]:
    """Return the three flows and over how many seconds they were measured."""
    found = flows.of(task_type, 6.0, 3.0)
    names = ("created_per_second", "started_per_second", "ended_per_second", "rate_seconds")
    return tuple(found[name] for name in names)


def test_one_look_has_the_servers_averages_and_more_have_the_flows_between_them() -> None:
    flows = Flows()
    flows.note(100.0, [Level("asr", 10, 2, 50)])
    assert told(flows) == (6.0, None, 3.0, 600.0)
    flows.note(102.0, [Level("asr", 6, 4, 58)])
    # 8 ended and 2 more run: 10 began; 4 fewer wait than before: 6 came
    assert told(flows) == (3.0, 5.0, 4.0, 2.0)


def test_flows_are_those_of_the_last_seconds() -> None:
    flows = Flows()
    for second in range(61):
        flows.note(float(second), [Level("asr", 0, 1, 100 * (second < 30) + 2 * second)])
    created, started, ended, seconds = told(flows)
    assert seconds is not None
    assert 14 <= seconds <= 15
    assert (created, started, ended) == (2.0, 2.0, 2.0)


def test_a_new_type_counts_from_nothing_and_deleted_old_tasks_are_no_negative_flow() -> None:
    flows = Flows()
    flows.note(0.0, [Level("asr", 0, 0, 1_000)])
    flows.note(10.0, [Level("asr", 0, 0, 400), Level("draft", 5, 1, 4)])
    assert told(flows) == (0.0, 0.0, 0.0, 10.0)
    assert told(flows, "draft") == (1.0, 0.5, 0.4, 10.0)


QUEUE: dict[str, Any] = {
    "type": "asr", "paused": True, "concurrency_limit": 3, "pending": 7, "processing": 2, "completed": 9,
    "failed": 1, "cancelled": 0, "oldest_pending_seconds": 4_000.0, "workers": 0, "created_per_second": 1.5,
    "started_per_second": None, "ended_per_second": 250.0, "rate_seconds": 600.0,
}  # fmt: skip


def server(**changes: Any) -> dict[str, Any]:
    """Return what one server said."""
    well = {"server": "task", "address": "127.0.0.1:7104", "health": "serving", "milliseconds": 3}
    return {**well, "trouble": "", "since": 1_000.0, **changes}


def drawn(picture: Picture) -> str:
    """Return what is drawn, as text."""
    console = Console(file=io.StringIO(), width=140)
    console.print(draw.picture(picture, console.width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def worker(number: int, running: int) -> dict[str, Any]:
    """Return a worker."""
    progress = [10 * n for n in range(running)]
    seen = {"heard_of_seconds": 12.0, "up_seconds": 7_000.0}
    return {"worker_id": f"w{number}", "types": ["asr"], "running": running, "progress": progress, **seen}


def test_queues_workers_and_policies_are_all_there() -> None:
    text = drawn(Picture(3_600.0, [server()], [QUEUE], [worker(1, 2)], 3_600.0))
    assert "01:00:00 UTC" in text
    for words in ("serving", "3 ms", "paused limit 3", "67 min", "1.5", "250", "0 %, 10 %", "12 s ago"):
        assert words in text
    assert "since" not in text


def test_an_unreachable_server_says_since_when_and_what_was_known_stays() -> None:
    away = server(health="unreachable", trouble="no task server answers at 127.0.0.1:7104.")
    text = drawn(Picture(1_090.0, [away], [QUEUE], [], 995.0, trouble=away["trouble"]))
    assert "unreachable since 00:16:40 (90 s)" in text
    assert "no task server answers" in text
    assert "below is what was so at 00:16:35" in text
    assert "paused limit 3" in text


def test_of_very_many_workers_the_busiest_are_shown() -> None:
    workers = [worker(n, running=n % 3) for n in range(100)]
    text = drawn(Picture(0.0, [server()], [QUEUE], workers, 1.0))
    assert text.count("s ago") == draw.MOST_WORKERS
    assert "and 75 more workers" in text
    assert "w2 " in text
    assert "w99" not in text


def test_of_servers_that_never_answered_nothing_is_claimed() -> None:
    away = server(health="unreachable", trouble="no task server answers at 127.0.0.1:7104.")
    text = drawn(Picture(1_090.0, [away], trouble=away["trouble"]))
    assert "no task server answers" in text
    for claimed in ("No queues", "No worker", "below", "Ctrl-C"):
        assert claimed not in text


def test_nothing_at_all_is_said_in_words() -> None:
    text = drawn(Picture(0.0, [server()], [], [], 1.0))
    assert "No queues yet" in text
    assert "No worker was heard of" in text
