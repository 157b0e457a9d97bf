"""One release takes the place of the one before, process by process and back, while everybody works."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from demo.site import ImageSite
from libs.common.child import command
from libs.common.testing import eventually
from tests.e2e.command import run
from tests.e2e.compose import free_ports
from tests.e2e.process import ROOT, environment
from tests.integration.asr.workers import first_seconds
from tests.soak.system.speech import speech_server
from tools.released import extract, reference

pytestmark = pytest.mark.timeout(500)  # two releases of seven processes each, there and back

CONTEXTS = ("task", "review", "asr", "ingest")  # each calls only those before it
WORKERS = ("ingest.worker", "asr.worker", "asr.slicing")
PROCESSES = (*CONTEXTS, *WORKERS)
LISTEN = {"asr.slicing": "FRONTROW_SLICING_LISTEN"}
# Packages of the release before that this one's environment has no more, by what does the same here.
STAND_INS = {
    "zhconv_rs.py": "import opencc\n\n\ndef zhconv(text, _):\n    return opencc.OpenCC('t2s').convert(text)\n"
}
# A release that doesn't start where a newer one was, as all do since; once it runs it must work there.
AS_THE_SCHEMA_IS = """
import runpy, sys
from libs.common import migrate
async def stay(*_, **__): pass
migrate.upgrade = stay
runpy.run_module(sys.argv[1], run_name="__main__")
"""
SECONDS = 60.0
RECORDING_SECONDS = 8
_LOAD = Path(__file__).with_name("rolling_load.py")


@dataclass
class Release:
    """The processes of one tree: each server on its own address, callers know both releases' addresses."""

    root: Path
    folder: Path
    settings: dict[str, str]
    ports: dict[str, int]
    running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Start a server or a worker, and wait for nothing."""
        listen = LISTEN.get(name, f"FRONTROW_{name.upper().replace('.', '_')}_LISTEN")
        settings = {**self.settings, listen: f"127.0.0.1:{self.ports[name]}"}
        with self.log(name).open("ab") as log:
            self.running[name] = subprocess.Popen(
                command([sys.executable, *self._program(f"services.{name}")], signal=signal.SIGTERM),
                cwd=self.root,
                env=self.environment(**settings),
                stdout=log,
                stderr=log,
            )

    def _program(self, module: str) -> list[str]:
        migrating = (self.root / "libs" / "common" / "migrate.py").read_text(encoding="utf-8")
        return ["-m", module] if "newer_schema" in migrating else ["-c", AS_THE_SCHEMA_IS, module]

    async def healthy(self, name: str) -> None:
        """Wait till a process says that it serves."""

        async with grpc.aio.insecure_channel(f"127.0.0.1:{self.ports[name]}") as channel:
            check = health_pb2_grpc.HealthStub(channel).Check

            async def asked() -> bool:
                assert self.running[name].poll() is None, self.log(name).read_text()[-3000:]
                try:
                    answer = await check(health_pb2.HealthCheckRequest(), timeout=1, wait_for_ready=True)
                except grpc.aio.AioRpcError:
                    return False
                return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

            await eventually(asked, SECONDS)

    async def stop(self, name: str) -> None:
        """Stop a process as an operator does; it must end well and in time."""
        process = self.running.pop(name)
        os.kill(process.pid, signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 40) == 0, self.log(name).read_text()[-3000:]

    async def module(self, *arguments: str) -> int:
        """Run a module of this tree to its end; return its exit status."""
        with self.log(arguments[0]).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", *arguments, cwd=self.root, env=self.environment(**self.settings),
                stdout=log, stderr=log,
            )  # fmt: skip
            return await process.wait()

    def environment(self, **settings: str) -> dict[str, str]:
        """Return an environment in which this tree's code goes before the installed one."""
        return environment(**settings) | {
            "PYTHONPATH": f"{self.root}{os.pathsep}{self.root / 'libs' / 'client'}",
        }

    def log(self, name: str) -> Path:
        """Return where a process logs."""
        return self.folder / f"{name}.log"

    def kill(self) -> None:
        """End what a failed test left."""
        for process in self.running.values():
            process.kill()
            process.wait()


@contextmanager
def releases(folder: Path, database_url: str, speech_url: str) -> Iterator[tuple[Release, Release]]:
    """Give the release before and this one, over one database and one store."""
    ports = free_ports(2 * len(PROCESSES))
    before, now = (dict(zip(PROCESSES, part, strict=True)) for part in (ports[::2], ports[1::2]))
    settings = {
        "FRONTROW_DATABASE_URL": database_url,
        "FRONTROW_OBJECT_STORE": str(folder / "objects"),
        "FRONTROW_INGEST_SEALING_KEY": "5e" * 32,
        "FRONTROW_INGEST_WORKER_ALLOW_LOOPBACK": "true",
        "FRONTROW_INGEST_WORKER_SCRATCH": str(folder / "scratch"),
        "FRONTROW_ASR_WORKER_SCRATCH_DIR": str(folder / "scratch"),
        "FRONTROW_ASR_WORKER_CONCURRENCY": "1",
        "FRONTROW_SLICING_SCRATCH": str(folder / "scratch"),
        "FRONTROW_ASR_ENGINE_URL": speech_url,
        "FRONTROW_ASR_FOLLOW_INTERVAL_SECONDS": "0.5",
        # a target of two addresses is taken for one beyond this machine
        "FRONTROW_INSECURE_PLAINTEXT": "true",
        **{
            f"FRONTROW_{name.upper()}_ADDRESS": f"ipv4:127.0.0.1:{before[name]},127.0.0.1:{now[name]}"
            for name in CONTEXTS
        },
    }
    tree = folder / "tree"
    extract(reference(), tree)
    for name, source in STAND_INS.items():
        (tree / name).write_text(source, encoding="utf-8")
    pair = []
    for root, which, name in ((tree, before, "before"), (ROOT, now, "now")):
        (folder / name).mkdir()
        pair.append(Release(root, folder / name, settings, which))
    try:
        yield pair[0], pair[1]
    finally:
        for release in pair:
            release.kill()


class Load:
    """The load that runs as a program of the release before."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.counts: dict[str, int] = {}
        self.errors: list[str] = []

    async def read(self) -> bool:
        """Take its next word; False when it has ended."""
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), SECONDS)
        if line:
            said: dict[str, Any] = json.loads(line)
            self.counts, self.errors = said["counts"], said["errors"]
        return bool(line)

    async def goes_on(self, why: str) -> None:
        """Wait till everybody has got something done since now."""
        wanted = {name: self.counts.get(name, 0) + 2 for name in ("submitted", "approved", "transcribed")}
        wanted["sliced"] = self.counts.get("sliced", 0) + 1

        async def further() -> bool:
            if not await self.read() or self.errors:  # nothing that waiting could mend
                raise RuntimeError("\n".join([f"the load met errors, or ended, {why}:", *self.errors]))
            return all(self.counts.get(name, 0) >= number for name, number in wanted.items())

        await eventually(further, SECONDS)

    async def end(self) -> None:
        """Let it end what it began."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        while await self.read():
            pass
        assert await self._process.wait() == 0


@asynccontextmanager
async def load_by(release: Release, **settings: str) -> AsyncIterator[Load]:
    with release.log("load").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command([sys.executable, str(_LOAD)], signal=signal.SIGKILL),
            cwd=release.folder, env=release.environment(), stderr=log,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(json.dumps(settings).encode() + b"\n")
        try:
            yield Load(process)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _spider(release: Release) -> dict[str, str]:
    address = {"FRONTROW_INGEST_ADDRESS": f"127.0.0.1:{release.ports['ingest']}"}
    done = await asyncio.to_thread(
        run, ["spiders", "add", "s", "--json"], folder=ROOT, environment=environment(**address)
    )
    assert done.returncode == 0, done.stderr
    made: dict[str, str] = json.loads(done.stdout)
    return {"key_id": made["key_id"], "secret": made["secret"]}


async def _replace(old: Release, new: Release, name: str, load: Load) -> None:
    """Let one process take the place of another, as docs/upgrades.md has it."""
    new.start(name)
    await new.healthy(name)
    await old.stop(name)
    await load.goes_on(f"with {name} of {new.folder.name} in the place of {old.folder.name}'s")


async def test_nobody_notices_that_a_release_takes_the_place_of_the_one_before_and_gives_it_back(
    empty_database_url: str, site: ImageSite, tmp_path: Path
) -> None:
    recording = tmp_path / "recording.mp4"
    recording.write_bytes(await first_seconds(tmp_path, RECORDING_SECONDS))
    async with speech_server() as speech_url:
        with releases(tmp_path, empty_database_url, speech_url) as (before, now):
            assert await before.module("services.migrate") == 0
            for name in PROCESSES:
                before.start(name)
            for name in PROCESSES:
                await before.healthy(name)
            targets = {name: before.settings[f"FRONTROW_{name.upper()}_ADDRESS"] for name in CONTEXTS}
            given = {"image": f"{site.origin}/photos/rocket.jpg", "recording": str(recording)}
            async with load_by(before, **targets, **await _spider(before), **given) as load:
                await load.goes_on("before anything was changed")
                assert await now.module("services.migrate") == 0
                await load.goes_on("on the new schema")
                for name in PROCESSES:
                    await _replace(before, now, name, load)
                for name in reversed(PROCESSES):
                    await _replace(now, before, name, load)
                await load.end()
            for name in reversed(PROCESSES):
                await before.stop(name)
            assert load.errors == []
            counts = load.counts
            assert counts["submitted"] == counts["drafted"] == counts["approved"]
            assert counts["recorded"] == counts["transcribed"] == counts["sliced"]
            assert [*_errors(before), *_errors(now)] == []


def _errors(release: Release) -> Iterator[str]:
    """Yield what its processes logged as errors, but for loops that met a peer's replacement and went on."""
    for log in release.folder.glob("*.log"):
        for line in log.read_text().splitlines():
            if not line.startswith("{"):
                continue
            told = json.loads(line)
            passing = told["event"] == "loop.step_failed" and "StatusCode.UNAVAILABLE" in told.get(
                "exception", ""
            )
            if told["level"] in ("error", "critical") and not passing:
                yield f"{log.name}: {line[:2000]}"
