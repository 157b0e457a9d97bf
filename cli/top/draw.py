"""Draw what a look has found: servers, queues, workers."""

import time
from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cli.output import several, span
from cli.top.look import Picture

MOST_WORKERS = 25
LATE_SECONDS = 300.0
# Columns of a terminal in which gaps may be wide.
_ROOMY = 100
# Widths below which a column that wraps would break words.
_LEAST = {"takes": 15, "progress": 10, "state": 7, "health": 11}


def picture(found: Picture, width: int, *, live: bool = False) -> RenderableType:
    """Return all of it, for a terminal of so many columns; `live` when it is drawn again and again."""
    parts: list[RenderableType] = [_title(found, live=live), _servers(found.servers, found.at, width)]
    if found.trouble:
        known = f"; below is what was so at {_clock(found.known_at)}" if found.known_at else ""
        parts += [Text(), Text(f"queues and workers: {found.trouble}{known}", style="red")]
    if found.known_at or not found.trouble:  # else nothing is known, not even that there is none
        parts += [Text(), _queues(found.queues, width), Text(), _workers(found.workers, width)]
    return Group(*parts)


def _title(found: Picture, *, live: bool) -> Text:
    leaving = "   Ctrl-C leaves" if live else ""
    return Text(f"frontrow   {_clock(found.at)} UTC{leaving}", style="bold")


def _clock(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(seconds))


def _table(width: int, *columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=width < _ROOMY)
    for column in columns:
        left = column in {"server", "address", "health", "queue", "state", "worker", "takes"}
        wraps = column in {"takes", "progress", "state", "health"}
        table.add_column(
            column, justify="left" if left else "right", no_wrap=not wraps,
            overflow="fold" if wraps else "ellipsis", min_width=_LEAST.get(column),
        )  # fmt: skip
    return table


def _servers(servers: Sequence[dict[str, Any]], now: float, width: int) -> Table:
    table = _table(width, "server", "address", "health", "answer in")
    for server in servers:
        well = server["health"] == "serving"
        lasted = "" if well else f" since {_clock(server['since'])} ({span(now - server['since'])})"
        table.add_row(
            server["server"],
            server["address"],
            Text(f"{server['health'].replace('_', ' ')}{lasted}", style="green" if well else "red"),
            f"{server['milliseconds']} ms" if server["health"] != "unreachable" else "",
        )
    return table


def _queues(queues: Sequence[dict[str, Any]], width: int) -> RenderableType:
    if not queues:
        return Text("No queues yet: a type appears with its first task.", style="dim")
    columns = ("waits", "oldest", "runs", "workers", "new/s", "begun/s", "ended/s", "failed")
    table = _table(width, "queue", "state", *columns)
    for queue in queues:
        oldest = queue["oldest_pending_seconds"]
        unserved = queue["pending"] and not queue["workers"]
        table.add_row(
            queue["type"],
            _state(queue),
            str(queue["pending"]),
            Text("" if oldest is None else span(oldest), style="red" if (oldest or 0) > LATE_SECONDS else ""),
            str(queue["processing"]),
            Text(str(queue["workers"]), style="red" if unserved else ""),
            *(_rate(queue[f"{flow}_per_second"]) for flow in ("created", "started", "ended")),
            Text(str(queue["failed"]), style="red" if queue["failed"] else ""),
        )
    return table


def _state(queue: dict[str, Any]) -> Text:
    limit = f"limit {queue['concurrency_limit']}" if queue["concurrency_limit"] else ""
    if queue["paused"]:
        return Text(f"paused {limit}".rstrip(), style="yellow")
    return Text(limit or "open", style="" if limit else "dim")


def _rate(per_second: float | None) -> str:
    return "" if per_second is None else f"{per_second:.1f}" if per_second < 100 else f"{per_second:.0f}"


def _workers(workers: Sequence[dict[str, Any]], width: int) -> RenderableType:
    if not workers:
        return Text("No worker was heard of in three minutes.", style="yellow")
    shown = sorted(workers, key=lambda worker: -worker["running"])[:MOST_WORKERS]
    table = _table(width, "worker", "runs", "progress", "heard of", "up", "takes")
    for worker in shown:
        progress = ", ".join(f"{percent} %" for percent in worker["progress"][:4])
        more = ", …" if len(worker["progress"]) > 4 else ""
        table.add_row(
            worker["worker_id"],
            str(worker["running"]),
            progress + more,
            f"{span(worker['heard_of_seconds'])} ago",
            span(worker["up_seconds"]),
            ", ".join(worker["types"]),
        )
    hidden = len(workers) - len(shown)
    return Group(table, Text(f"and {several(hidden, 'more worker')}", style="dim")) if hidden else table
