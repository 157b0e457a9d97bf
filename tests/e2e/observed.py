"""A running system that is watched: its traces go to a collector here, its metrics are on a page."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.e2e.collector import Collector, collecting
from tests.e2e.process import Process


@dataclass(eq=False)
class Observed:
    """The system and what it has told."""

    process: Process
    collector: Collector
    secrets: list[str] = field(default_factory=list)

    def logged(self) -> list[dict[str, Any]]:
        """Return the events of its log."""
        lines = self.process.log_file.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def page(self) -> str:
        """Return its page of metrics."""
        [served] = [event for event in self.logged() if event["event"] == "metrics.served"]
        with urllib.request.urlopen(f"http://{served['address']}/metrics", timeout=20) as answer:
            text: str = answer.read().decode()
        return text

    def samples(self) -> list[Sample]:
        """Return every number on the page."""
        return [sample for family in text_string_to_metric_families(self.page()) for sample in family.samples]

    def families(self) -> set[str]:
        """Return the names of our metrics on the page."""
        found = re.findall(r"^# TYPE (\S+) ", self.page(), re.MULTILINE)
        return {name for name in found if name.startswith("frontrow_")}


@contextmanager
def observed(data_dir: Path, database_url: str) -> Iterator[Observed]:
    """Run a system that records every trace."""
    with collecting() as collector:
        settings = {
            "FRONTROW_DATABASE_URL": database_url,
            "FRONTROW_OTLP_ENDPOINT": f"http://{collector.address}",
            "FRONTROW_METRICS_LISTEN": "127.0.0.1:0",
            "FRONTROW_TRACES_PER_SECOND": "10000",
            "FRONTROW_INGEST_WORKER_ALLOW_LOOPBACK": "true",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "no_proxy": "127.0.0.1",
        }
        running = Process(data_dir, settings).start()
        try:
            yield Observed(running, collector)
        finally:
            status = running.stop()
    assert status == 0
