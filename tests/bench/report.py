"""Gather figures, print them as one table beside what was to be reached, keep them as JSON."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """One figure. `reached` None: for comparison only; `target` says in words what was to be reached."""

    name: str
    value: str
    target: str = ""
    reached: bool | None = None
    foreign_cores: float | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """A benchmark that could not be measured."""

    bench: str
    error: str


def worst_load(results: list[dict[str, Any]]) -> float:
    """Return the highest load of others among the measurements that a figure comes from."""
    return max((float(result.get("foreign_cores", 0.0)) for result in results), default=0.0)


class Report:
    """The figures of a run, written anew after each benchmark."""

    def __init__(self, path: Path, *, settings: dict[str, Any]) -> None:
        self._path = path
        self._began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._settings = settings
        self._figures: list[tuple[str, Figure]] = []
        self._failures: list[Failure] = []

    @property
    def failed(self) -> bool:
        """Whether something could not be measured."""
        return bool(self._failures)

    def add(self, bench: str, figures: list[Figure]) -> None:
        """Keep the figures of one benchmark."""
        self._figures += [(bench, figure) for figure in figures]
        self._write()

    def failed_with(self, bench: str, error: BaseException) -> None:
        """Keep that a benchmark could not be measured."""
        self._failures.append(Failure(bench, f"{type(error).__name__}: {error}"))
        self._write()

    def print(self, only: str | None = None) -> None:
        """Print the table, or the part of one benchmark."""
        table = Table(title=None if only else "Frontrow, measured", expand=False)
        table.add_column("benchmark")
        for name in ("figure", "measured", "to reach", "verdict", "foreign load"):
            table.add_column(name, overflow="fold")
        for bench, figure in self._figures:
            if only in (None, bench):
                load = "" if figure.foreign_cores is None else f"{figure.foreign_cores:.2f} cores"
                table.add_row(bench, figure.name, figure.value, figure.target, _verdict(figure), load)
        for failure in self._failures:
            if only in (None, failure.bench):
                table.add_row(failure.bench, "could not be measured", failure.error, "", "[red]failed[/]", "")
        width = None if Console().is_terminal else 150
        Console(width=width).print(table)

    def _write(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        document = {
            "began": self._began,
            "machine": _machine(),
            "commit": _commit(),
            "settings": self._settings,
            "figures": [{"bench": bench, **asdict(figure)} for bench, figure in self._figures],
            "failures": [asdict(failure) for failure in self._failures],
        }
        draft = self._path.with_suffix(".tmp")
        draft.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        draft.replace(self._path)


def _verdict(figure: Figure) -> str:
    if figure.reached is None:
        return ""
    return "[green]reached[/]" if figure.reached else "[red]missed[/]"


def _machine() -> dict[str, Any]:
    return {
        "processors": os.cpu_count(),
        "model": next(
            (
                line.split(":", 1)[1].strip()
                for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")
            ),
            platform.machine(),
        ),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def _commit() -> str:
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"],
        cwd=Path(__file__).parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return asked.stdout.strip()
