"""Real processes to kill: PostgreSQL, task servers behind proxies, workers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import grpc.aio

from libs.common import migrate
from libs.common.child import command
from libs.common.child import kill as kill_child
from libs.common.postgres import EmbeddedPostgres
from libs.common.testing import eventually
from tests.integration.task.service import Tasks, completed, new_type, released
from tests.soak.proxy import Proxy

ROOT = Path(__file__).resolve().parents[3]
LEASE_SECONDS = 3.0
LOST_CLAIM_SECONDS = 2.0
_ENVIRONMENT = {
    "FRONTROW_TASK_LEASE_SECONDS": str(LEASE_SECONDS),
    "FRONTROW_TASK_SWEEP_INTERVAL_SECONDS": "0.5",
    "FRONTROW_TASK_LOST_CLAIM_SECONDS": str(LOST_CLAIM_SECONDS),
    "FRONTROW_TASK_RETRY_BASE_SECONDS": "0.2",
    "FRONTROW_LOG_LEVEL": "WARNING",
}


class Machine:
    """A program that is started again whenever it was killed. What it says goes to a file."""

    def __init__(self, argv: Sequence[str], log: Path, environment: dict[str, str]) -> None:
        self._argv = list(argv)
        self._log = log
        self._environment = {
            **os.environ,
            **environment,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "libs" / "client")]),
        }
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the program; it dies with us."""
        with self._log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *command(self._argv), stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=ROOT, env=self._environment, start_new_session=True,
            )  # fmt: skip

    async def kill(self) -> None:
        """Kill it with -9."""
        if self.process is not None:
            await kill_child(self.process)

    async def end(self, within_seconds: float) -> None:
        """Ask it to end, as a service manager does. Raises TimeoutError when it takes longer."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGTERM)
        await asyncio.wait_for(self.process.wait(), within_seconds)
        # the second: it had only just begun
        assert self.process.returncode in {0, -signal.SIGTERM}, self._log.read_text()[-3000:]

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.process is not None and self.process.returncode is None


class Postgres:
    """A PostgreSQL of our own, and a proxy before its socket."""

    def __init__(self, folder: Path, **options: str) -> None:
        # No fsync: the machine stays up, whatever is killed on it.
        self._embedded = EmbeddedPostgres(folder / "data", options={"fsync": "off", **options})
        self._sockets = folder / "s"
        self.direct_url = ""
        self.url = ""
        self.proxy: Proxy | None = None
        self._pid = 0

    async def start(self) -> None:
        """Start it with the schema in place."""
        self.direct_url = await self._embedded.start()
        await migrate.upgrade(self.direct_url, "task")
        parts = urlsplit(self.direct_url)
        behind = Path(parse_qs(parts.query)["host"][0])
        self._sockets.mkdir()
        self.proxy = Proxy(behind / ".s.PGSQL.5432", path=self._sockets / ".s.PGSQL.5432")
        await self.proxy.start()
        self.url = f"postgresql://frontrow@/frontrow?host={self._sockets}&port=5432"
        await self._read_pid()

    async def _read_pid(self) -> None:
        connection = await asyncpg.connect(self.direct_url)
        folder = await connection.fetchval("SHOW data_directory")
        await connection.close()
        self._pid = int((Path(folder) / "postmaster.pid").read_text().splitlines()[0])

    async def end(self, *, crash: bool) -> None:
        """Shut it down, or let it crash."""
        os.kill(self._pid, signal.SIGQUIT if crash else signal.SIGINT)
        await self._embedded.wait()

    async def kill(self) -> None:
        """Kill its first process with -9."""
        os.kill(self._pid, signal.SIGKILL)
        await self.ended()

    async def ended(self) -> None:
        """Wait till it has ended, by whomever."""
        await self._embedded.wait()

    @property
    def pid(self) -> int:
        """Its first process."""
        return self._pid

    @property
    def alive(self) -> bool:
        """Whether its first process runs."""
        return Path(f"/proc/{self._pid}").exists()

    async def begin_again(self) -> None:
        """Start it again, on the same socket."""
        await self._embedded.start()
        await self._read_pid()

    async def terminate(self, application_name: str) -> None:
        """Terminate the backends of some application."""
        connection = await asyncpg.connect(self.direct_url)
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE $1",
            application_name,
        )
        await connection.close()

    async def stop(self) -> None:
        """Stop it for good."""
        if self.proxy is not None:
            await self.proxy.stop()
        await self._embedded.stop()


class Fleet:
    """All of it, in a folder of its own. Close it at the end."""

    def __init__(
        self, *, servers: int, workers: int, slots: int, environment: Mapping[str, str] | None = None
    ) -> None:
        # Not below a test's folder: the path of a socket is short, and PostgreSQL may run as another user.
        self.folder = folder = Path(tempfile.mkdtemp(prefix="frontrow-soak-"))
        folder.chmod(0o755)
        self.effects = folder / "effects.jsonl"
        self.kind = new_type()
        self.postgres = Postgres(folder)
        self._counts = (servers, workers, slots)
        self._environment = {**_ENVIRONMENT, **(environment or {})}
        self.servers: list[Machine] = []
        self.workers: list[Machine] = []
        self.proxies: list[Proxy] = []
        self.addresses: list[str] = []
        self.clients: list[Tasks] = []

    async def start(self) -> None:
        """Start everything; returns when every server serves."""
        servers, workers, slots = self._counts
        await self.postgres.start()
        ports = await _free_ports(servers)
        for number, port in enumerate(ports):
            await self._add_server(number, port)
        self.addresses = [await proxy.start() for proxy in self.proxies]
        target = "ipv4:" + ",".join(self.addresses)
        python = [sys.executable, "-m", "tests.soak.task.worker_process"]
        for number in range(workers):
            argv = [*python, target, self.kind, str(self.effects), str(slots)]
            worker = Machine(argv, self.folder / f"worker-{number}.log", {})
            await worker.start()
            self.workers.append(worker)
        await self.serving(60)

    async def _add_server(self, number: int, port: int) -> None:
        environment = self._environment | {
            "FRONTROW_DATABASE_URL": self.postgres.url,
            "FRONTROW_TASK_LISTEN": f"127.0.0.1:{port}",
        }
        argv = [sys.executable, "-m", "services.task"]
        server = Machine(argv, self.folder / f"server-{number}.log", environment)
        await server.start()
        self.servers.append(server)
        self.proxies.append(Proxy(("127.0.0.1", port)))
        self.clients.append(Tasks(f"127.0.0.1:{port}"))

    async def serving(self, timeout_seconds: float) -> float:
        """Wait until every server creates, hands out and ends a task; return how long that took."""
        began = time.monotonic()

        for client in self.clients:
            await eventually(partial(_serves, client), timeout_seconds)
        return time.monotonic() - began

    async def close(self) -> None:
        """End everything."""
        for client in self.clients:
            await client.close()
        for machine in (*self.workers, *self.servers):
            await machine.kill()
        for proxy in self.proxies:
            await proxy.stop()
        await self.postgres.stop()
        shutil.rmtree(self.folder)


async def _serves(client: Tasks) -> bool:
    """Try whether a server creates a task, hands it out, takes it back, lets it fall due and ends it."""
    kind = new_type()
    try:
        made = await client.create(kind)
        given_back = await client.finish(*(released(run, 0.1) for run in (await client.claim(kind)).tasks))
        runs = (await client.claim(kind, wait=10)).tasks
        ends = await client.finish(*(completed(run) for run in runs))
    except grpc.aio.AioRpcError:
        return False
    return ([run.id for run in runs], given_back, ends) == ([made.id], ["REQUEUED"], ["APPLIED"])


async def _free_ports(count: int) -> list[int]:
    """Return ports that nobody has now; a server keeps its port when it is started again."""
    held = [await asyncio.start_server(lambda *_: None, "127.0.0.1", 0) for _ in range(count)]
    ports: list[int] = [server.sockets[0].getsockname()[1] for server in held]
    for server in held:
        server.close()
        await server.wait_closed()
    return ports
