"""Print answers: JSON for programs, tables for people."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from cli import tables

# A pipe or a file has no width of its own; at 80 columns tables would be broken into letters.
console = Console() if sys.stdout.isatty() or "COLUMNS" in os.environ else Console(width=200)


def _or_the_groups(ctx: click.Context, _: click.Parameter, value: bool) -> bool:
    """Take `frontrow jobs --json ID` for `frontrow jobs ID --json`."""
    return value or bool(ctx.parent is not None and ctx.parent.params.get("as_json"))


json_option = click.option(
    "--json", "as_json", is_flag=True, callback=_or_the_groups, help="Print JSON instead of a table."
)

# Columns of ids, which are copied and so never broken in two.
_WHOLE = {"id", "holds", "not run again", "object key", "worker"}

_STYLES = {
    "completed": "green",
    "done": "green",
    "approved": "green",
    "serving": "green",
    "ok": "green",
    "processing": "cyan",
    "failed": "red",
    "rejected": "red",
    "lost": "red",
    "blocks": "red",
    "passes": "green",
    "running": "cyan",
    "paused": "yellow",
    "missing": "red",
    "cancelled": "yellow",
    "warning": "yellow",
}


def as_dict(message: Message) -> dict[str, Any]:
    """Return a message as JSON data with the proto's own field names."""
    return MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)


def print_json(data: Any) -> None:
    """Print JSON on stdout, readable, with all scripts as they are."""
    sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print a table, or what its emptiness means. A cell that is a known state gets its colour."""
    cells = [[Text(str(cell), style=_STYLES.get(str(cell), "")) for cell in row] for row in rows]
    if cells:
        tables.show(console, columns, cells, whole=_WHOLE)
    else:
        console.print(empty)


def print_advice(lines: Iterable[str]) -> None:
    """Print what to do, a line each, below what it is about; nothing for nothing."""
    for line in lines:
        console.print(Padding(Text(line), (0, 0, 0, 2)))


def word(enum: Any, value: int, prefix: str) -> str:
    """Return an enum's value as people say it: TASK_STATUS_PENDING is `pending`."""
    name: str = enum.Name(value)
    return name.removeprefix(prefix).lower()


def clock(time: Timestamp) -> str:
    """Return a time for a table in UTC; empty when there is none."""
    return time.ToDatetime().strftime("%Y-%m-%d %H:%M:%S") if time.seconds else ""


def span(seconds: float) -> str:
    """Return a length of time in its fitting unit: 42 s, 5 min, 2.5 h, 3.0 d."""
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s"
    if seconds < 7_200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3_600:.1f} h"
    return f"{seconds / 86_400:.1f} d"


def size(count: int) -> str:
    """Return a number of bytes in its fitting unit: 512 B, 1.5 kB, 2.0 MB, 3.1 GB."""
    if count < 1_000:
        return f"{count} B"
    for unit, factor in (("kB", 1e3), ("MB", 1e6)):
        if count < factor * 1_000:
            return f"{count / factor:.1f} {unit}"
    return f"{count / 1e9:.1f} GB"


def several(number: int, noun: str) -> str:
    """Return a number with its noun: 1 run, 2 runs."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
