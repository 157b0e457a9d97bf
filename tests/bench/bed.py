"""What every benchmark stands on: the one PostgreSQL, servers, clients, and the peers' interpreter."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench import processes
from tests.bench.cluster import Cluster
from tests.bench.load import Meter, wait_quiet
from tests.bench.processes import Server

PEERS_PYTHON = processes.ROOT / ".venv-bench" / "bin" / "python"


@dataclass(frozen=True)
class Bed:
    """One run. `patience_seconds` bounds the wait for a quiet machine before each measurement."""

    cluster: Cluster
    folder: Path
    quick: bool
    patience_seconds: float

    def amount(self, full: int, quick: int) -> int:
        """Return how much to do in this run."""
        return quick if self.quick else full

    def pids(self, server: Server | None = None) -> dict[str, int]:
        """Return the first process of each part, by name."""
        pids = {"bench": os.getpid(), "postgres": self.cluster.pid}
        if server is not None:
            pids["server"] = server.pid
        return pids

    def wait_quiet(self) -> float:
        """Wait for a quiet machine as long as this run allows; return the cores others still use. Blocks."""
        return wait_quiet(os.getpid(), patience_seconds=self.patience_seconds)

    def meter(self, server: Server | None = None) -> Meter:
        """Return a meter of all processes of this run."""
        return Meter(self.pids(server))

    @asynccontextmanager
    async def server(
        self, database_url: str, *, context: str = "task", module: str = "", **environment: str
    ) -> AsyncIterator[Server]:
        """Run a context's server for the length of the block; other keywords are settings in the environment.

        `module` is the program, `services.<context>` unless it is given.
        """
        async with processes.context_server(
            database_url, log=self.folder / "server.log", module=module or f"services.{context}",
            context=context, **environment,
        ) as server:  # fmt: skip
            yield server

    async def client(self, module: str, server: Server | None, **arguments: Any) -> dict[str, Any]:
        """Run a measurement of ours against a server, in a process of its own."""
        given = {"patience_seconds": self.patience_seconds, "pids": self.pids(server), **arguments}
        if server is not None:
            given["address"] = server.address
        return await processes.child(module, given, log=self.folder / "client.log")

    async def peer(self, name: str, operation: str, **arguments: Any) -> dict[str, Any]:
        """Run a measurement of another queue, on a database of its own; raises when that can't be done."""
        url = await self.cluster.make_database(f"peer_{name}")
        given = {
            "patience_seconds": self.patience_seconds,
            "pids": self.pids(),
            "operation": operation,
            "url": url,
            **arguments,
        }
        module = f"tests.bench.peers.with_{name}"
        return await processes.child(module, given, log=self.folder / "peer.log", python=str(PEERS_PYTHON))
