"""What the pipeline around every handler costs: checks, error mapping and telemetry on, against none of them.

On means as in production: spans and metrics are exported to a collector, which runs here as well.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from contextlib import AsyncExitStack
from typing import Any

from tests.bench.bed import Bed
from tests.bench.processes import free_address, program
from tests.bench.report import Figure, worst_load
from tests.bench.task import drain, single

ROUNDS = 3


async def measure(bed: Bed) -> list[Figure]:
    """Put both loads on both servers, in turns."""
    url = await bed.cluster.make_task_database("overhead")
    loads: dict[str, tuple[str, dict[str, Any]]] = {
        "single calls, 50 workers": (
            single.MODULE,
            {"workers": single.WORKERS, "tasks": bed.amount(4_000, 1_000)},
        ),
        "8 callers × 100 tasks": (
            drain.MODULE,
            {"callers": 8, "batch": 100, "tasks": bed.amount(20_000, 4_000)},
        ),
    }
    results: dict[tuple[str, bool], list[dict[str, Any]]] = defaultdict(list)
    collector = free_address()
    servers: dict[bool, dict[str, str]] = {
        True: {"module": "services.task", "FRONTROW_OTLP_ENDPOINT": f"http://{collector}"},
        False: {"module": "tests.bench.task.bare_server"},
    }
    for _ in range(bed.amount(ROUNDS, 1)):
        for full, options in servers.items():
            async with AsyncExitStack() as stack:
                if full:
                    await stack.enter_async_context(
                        program(
                            "tests.bench.task.collector", collector, environment={},
                            log=bed.folder / "collector.log",
                        )
                    )  # fmt: skip
                server = await stack.enter_async_context(bed.server(url, **options))
                for load, (module, given) in loads.items():
                    result = await bed.client(module, server, database_url=url, **given)
                    results[load, full].append(result)
    return [_figure(load, results[load, True], results[load, False]) for load in loads]


def _figure(load: str, full: list[dict[str, Any]], bare: list[dict[str, Any]]) -> Figure:
    on, off = (statistics.median(result["rate"] for result in results) for results in (full, bare))
    return Figure(
        f"{load}: {on:,.0f} tasks/s with all on, {off:,.0f}/s with all off",
        f"{on / off:.2f} ×",
        "≥ 0.80 ×",
        on >= 0.8 * off,
        worst_load([*full, *bare]),
        {"on": full, "off": bare},
    )
