"""Measure Frontrow: `python -m tests.bench [contexts or names…] [--quick]`."""

from __future__ import annotations

import argparse
import asyncio
import sys
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from tests.bench import asr, ingest, processes, review, task
from tests.bench.bed import Bed
from tests.bench.cluster import OPTIONS, Cluster
from tests.bench.report import Figure, Report

CONTEXTS: dict[str, dict[str, Callable[[Bed], Awaitable[list[Figure]]]]] = {
    "task": task.BENCHMARKS,
    "ingest": ingest.BENCHMARKS,
    "review": review.BENCHMARKS,
    "asr": asr.BENCHMARKS,
}
BENCHMARKS = {name: measure for benchmarks in CONTEXTS.values() for name, measure in benchmarks.items()}
FOLDER = processes.ROOT / "var" / "bench"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    known = ", ".join(f"{context} ({', '.join(benchmarks)})" for context, benchmarks in CONTEXTS.items())
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {known}; none: all")
    parser.add_argument("--quick", action="store_true", help="smaller amounts and shorter times")
    parser.add_argument(
        "--patience", type=float, default=60.0, metavar="SECONDS",
        help="longest wait for a quiet machine before each measurement (default 60)",
    )  # fmt: skip
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, help="where its PostgreSQL, logs and report.json are"
    )
    given = parser.parse_args()
    if unknown := sorted(set(given.names) - set(BENCHMARKS) - set(CONTEXTS)):
        parser.error(f"no benchmark {', '.join(unknown)}; there are {known}")
    return given


def _chosen(names: list[str]) -> list[str]:
    """Return the benchmarks that are meant, contexts replaced by what they hold."""
    return [one for name in names or CONTEXTS for one in CONTEXTS.get(name, {name: None})]


async def _run(given: argparse.Namespace) -> Report:
    folder: Path = given.folder
    cluster = Cluster(folder)
    await cluster.start()
    try:
        bed = Bed(cluster, folder, given.quick, given.patience)
        settings = {"postgresql": cluster.version, "quick": given.quick, **OPTIONS}
        report = Report(folder / "report.json", settings=settings)
        for name in _chosen(given.names):
            sys.stderr.write(f"measuring {name} …\n")
            try:
                report.add(name, await BENCHMARKS[name](bed))
            except Exception as error:  # noqa: BLE001 - the others are measured all the same
                traceback.print_exc()
                report.failed_with(name, error)
            report.print(only=name)
        return report
    finally:
        await cluster.stop()


def main() -> int:
    """Run the benchmarks; return 1 when one could not be measured."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    given = _arguments()
    given.folder = given.folder.resolve()
    given.folder.mkdir(parents=True, exist_ok=True)
    report = asyncio.run(_run(given))
    report.print()
    sys.stdout.write(f"written to {given.folder / 'report.json'}\n")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
