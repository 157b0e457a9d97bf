"""Print answers: JSON for programs, tables for people."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import Console
from rich.table import Table
from rich.text import Text

console = Console()

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")

_STYLES = {
    "completed": "green",
    "done": "green",
    "approved": "green",
    "serving": "green",
    "ok": "green",
    "processing": "cyan",
    "failed": "red",
    "rejected": "red",
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
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell), style=_STYLES.get(str(cell), "")) for cell in row))
    if table.row_count:
        console.print(table)
    else:
        console.print(empty)


def word(enum: Any, value: int, prefix: str) -> str:
    """Return an enum's value as people say it: TASK_STATUS_PENDING is `pending`."""
    name: str = enum.Name(value)
    return name.removeprefix(prefix).lower()


def clock(time: Timestamp) -> str:
    """Return a time for a table in UTC; empty when there is none."""
    return time.ToDatetime().strftime("%Y-%m-%d %H:%M:%S") if time.seconds else ""
