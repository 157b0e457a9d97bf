"""Tables stay readable on a narrow terminal."""

import io

import pytest
from rich.console import Console

from cli import output
from cli.commands.tasks import short
from cli.top import draw
from cli.top.look import Picture

TASK = "01a231ca-7ae6-7253-9736-15e4887a71f6"
COLUMNS = ["id", "type", "status", "%", "try", "created (UTC)", "what", "error"]
WORK = "国债逆回购直播间"
LINE = (TASK, "ai_slice_draft", "pending", 0, "2/3", "2026-12-01 13:28:03", WORK, "DNS: " * 20)


def printed(
    monkeypatch: pytest.MonkeyPatch, columns: list[str], rows: list[tuple[object, ...]], width: int
) -> list[str]:
    """Return what a terminal of that width shows."""
    console = Console(file=io.StringIO(), width=width)
    monkeypatch.setattr(output, "console", console)
    output.print_table(columns, rows, empty="none")
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_a_narrow_table_has_ids_whole_and_what_does_not_fit_below_its_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = printed(monkeypatch, COLUMNS, [LINE, (TASK, "asr", "done", 100, "1/3", "", "x", "")], 80)
    assert lines[0].split() == ["id", "type", "status", "%", "try"]
    assert lines[1].split() == [TASK, "ai_slice_draft", "pending", "0", "2/3"]
    assert lines[2].startswith("  created (UTC) 2026-12-01 13:28:03  what 国债逆回购直播间")
    assert all(line.startswith("  ") for line in lines[2:-2])
    assert lines[-2].split() == [TASK, "asr", "done", "100", "1/3"]
    assert lines[-1] == "  what x"  # what is empty isn't named
    assert all(Console().measure(line).maximum <= 80 for line in lines)
    assert lines[1].index("pending") == lines[-2].index("done")


def test_a_table_that_fits_is_one_and_so_is_one_whose_sentences_alone_are_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wide = printed(monkeypatch, COLUMNS, [LINE], 300)
    assert len(wide) == 2
    said = "identical images are stored once, which never keeps an article out of it"
    lines = printed(monkeypatch, ["layer", "says", "why"], [("content", "passes", said)], 60)
    assert len(lines) == 3
    assert lines[0].split() == ["layer", "says", "why"]
    assert lines[2].startswith(" " * lines[0].index("why"))


def test_a_cell_of_several_lines_stands_below_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = "street_snap.month: 0 → 8\nstreet_snap.city: – → Copenhagen"
    row = ("2026-12-01 13:28:03", "mia", "edited", changes, "so that it is found")
    lines = printed(monkeypatch, ["when (UTC)", "who", "what", "changes", "reason"], [row], 50)
    assert lines[0].split() == ["when", "(UTC)", "who", "what"]
    assert lines[2:4] == ["  changes street_snap.month: 0 → 8", "  street_snap.city: – → Copenhagen"]


def test_an_id_that_is_wider_than_the_terminal_is_still_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "worker-" + "7" * 90
    lines = printed(monkeypatch, ["worker", "takes", "holds"], [(name, "asr", f"asr {TASK}")], 60)
    assert name in "".join(lines)
    assert any(f"asr {TASK}" in line for line in lines)


def test_a_bars_label_is_cut_to_the_room_that_there_is() -> None:
    assert short("asr", 80) == "asr"
    assert Console().measure(short("国债" * 30, 80)).maximum <= 22
    assert len(short("x" * 90, 200)) == 40


@pytest.mark.parametrize("kind", ["ingest", "ai_slice_draft"])
def test_top_names_every_column_in_80_columns(kind: str) -> None:
    queue = {
        "type": kind, "paused": True, "concurrency_limit": 3, "pending": 1234, "processing": 12,
        "oldest_pending_seconds": 90_000.0, "workers": 3, "created_per_second": 12.5, "failed": 17,
        "started_per_second": 10.0, "ended_per_second": 10.0,
    }  # fmt: skip
    server = {"server": "task", "address": "127.0.0.1:7104", "health": "serving", "milliseconds": 3}
    worker = {
        "worker_id": "build-machine-17:5803:f788586d954e", "running": 4, "progress": [10, 20, 30, 40],
        "types": ["ai_slice", "ai_slice_draft", "draft"], "heard_of_seconds": 3.0, "up_seconds": 90.0,
    }  # fmt: skip
    console = Console(file=io.StringIO(), width=80)
    console.print(draw.picture(Picture(0.0, [{**server, "since": 0.0}], [queue], [worker], 1.0), 80))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "…" not in text
    for word in (kind, "paused", "1234", "failed", "17", "ended/s", "90 s", "40 %"):
        assert word in text
