"""What the demo made, how long it took, and every check: on the terminal and as a file."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


class Deviation(Exception):
    """A check failed; the message says what was expected and what came."""


@dataclass
class Report:
    """Collects results, timings and checks of one run."""

    console: Console
    made: list[dict[str, Any]] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    checks: list[dict[str, Any]] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Measure one step and say that it is done."""
        began = time.monotonic()
        yield
        self.timings[step] = round(time.monotonic() - began, 2)
        self.console.print(f"[dim]{self.timings[step]:6.1f} s[/]  {step}")

    def note(self, what: str, result: str, **facts: Any) -> None:
        """Add a row to the table of what was made."""
        self.made.append({"what": what, "result": result, **facts})

    def check(self, claim: str, expected: object, actual: object) -> None:
        """Compare, and remember; every deviation is told at the end, not only the first."""
        self._remember(claim, expected == actual, expected, actual)

    def check_that(self, claim: str, holds: bool, actual: object) -> None:
        """Remember a claim that isn't an equality, with the value it is about."""
        self._remember(claim, holds, claim, actual)

    def _remember(self, claim: str, holds: bool, expected: object, actual: object) -> None:
        self.checks.append({"claim": claim, "ok": holds, "expected": repr(expected), "actual": repr(actual)})
        mark = "[green]✓[/]" if holds else "[red]✗[/]"
        self.console.print(f"          {mark} {claim}", highlight=False)

    def deviations(self) -> list[str]:
        """Return a sentence for each check that failed."""
        return [
            f"{check['claim']}: expected {check['expected']}, got {check['actual']}"
            for check in self.checks
            if not check["ok"]
        ]

    def print_tables(self) -> None:
        """Print what was made and the timings; nothing when it failed before anything was made."""
        if not self.made:
            return
        made = Table(title="What was made", title_justify="left", box=None, header_style="bold")
        made.add_column("what")
        made.add_column("result", overflow="fold")
        for row in self.made:
            made.add_row(row["what"], row["result"])
        self.console.print(made)
        timings = Table(title="Timings", title_justify="left", box=None, header_style="bold")
        timings.add_column("step")
        timings.add_column("seconds", justify="right")
        for step, seconds in self.timings.items():
            timings.add_row(step, f"{seconds:.2f}")
        timings.add_row("[bold]all[/]", f"[bold]{time.monotonic() - self.began:.2f}[/]")
        self.console.print(timings)

    def write(self, path: Path, error: str) -> None:
        """Write the machine-readable copy."""
        path.parent.mkdir(parents=True, exist_ok=True)
        report = {
            "ok": not error and not self.deviations(),
            "error": error,
            "deviations": self.deviations(),
            "seconds": round(time.monotonic() - self.began, 2),
            "timings": self.timings,
            "made": self.made,
            "checks": self.checks,
        }
        path.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
