"""All contexts and all workers in one process, started and stopped in the order they need one another.

They call each other over loopback with the same stubs as on separate machines.
"""

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import structlog
from pydantic import BaseModel

from libs.common.loops import Loop
from libs.common.server import ContextServer, Mounted
from libs.common.settings import CommonSettings
from services.access import RULES
from services.migrate import CONTEXTS, upgrade

S = TypeVar("S", bound=BaseModel)

log = structlog.get_logger(__name__)

_FREE_PORT = "127.0.0.1:0"
_GRACE_SECONDS = 5.0


class OneAddressForFour(ValueError):
    """Refuse a setting that names one address, where each of four servers would need its own."""


class Composition:
    """Four servers and three workers. `ephemeral_ports` ignores the configured listen addresses.

    Raises:
        OneAddressForFour: `common` names an address for processes.
    """

    def __init__(
        self,
        common: CommonSettings,
        data_dir: Path,
        *,
        workers: bool = True,
        ephemeral_ports: bool = False,
    ) -> None:
        if common.transport.process_listen:
            raise OneAddressForFour(
                "FRONTROW_PROCESS_LISTEN is one address, and four servers run in this process: unset it, or "
                "start each server as a process of its own"
            )
        self._common = common
        self._data_dir = data_dir
        self._with_workers = workers
        self._ephemeral_ports = ephemeral_ports
        self._servers: list[ContextServer] = []
        self._workers: list[Loop] = []

    async def start(self) -> dict[str, str]:
        """Migrate and start every context, then the workers; return each context's bound address."""
        await upgrade(self._common.database)
        addresses: dict[str, str] = {}
        for name in CONTEXTS:
            listen, mounted = await _mount(name, self._common.of(name), self._data_dir)
            address = _FREE_PORT if self._ephemeral_ports else listen
            server = ContextServer(name, address, mounted, transport=self._common.transport, rules=RULES)
            self._servers.append(server)
            addresses[name] = await server.start()
            self._learn_address(name, addresses[name], configured=listen)
        if self._with_workers:
            for build in _worker_builders(self._data_dir):
                worker = build(self._common)
                self._workers.append(worker)
                await worker.start()
        return addresses

    async def stop(self, grace_seconds: float = _GRACE_SECONDS) -> None:
        """Stop the workers, which give back what they hold, then the servers from last to first."""
        ended = await asyncio.gather(*(worker.stop() for worker in self._workers), return_exceptions=True)
        for outcome in ended:
            if isinstance(outcome, Exception):
                log.error("worker.stop_failed", exc_info=outcome)
        for server in reversed(self._servers):
            try:
                await server.stop(grace_seconds)
            except Exception:  # what the others and the database hold must be let go of all the same
                log.exception("server.stop_failed", server=server.name)

    def _learn_address(self, name: str, bound: str, *, configured: str) -> None:
        """Let later mounts call the context where it really listens (a chosen port, loopback for 0.0.0.0)."""
        host, _, port = bound.rpartition(":")
        reachable = f"127.0.0.1:{port}" if host in ("0.0.0.0", "[::]") else bound  # noqa: S104  (compared)
        peers = self._common.peers.model_copy(update={f"{name}_address": reachable})
        self._common = dataclasses.replace(self._common, peers=peers)
        log.info("context.listening", server=name, address=bound, configured=configured)


async def _mount(name: str, common: CommonSettings, data_dir: Path) -> tuple[str, Mounted]:
    """Mount one context; return its configured listen address and what goes on its server.

    Each context is imported only here: the order of imports is the order of starts.
    """
    match name:
        case "task":
            from services.task.mount import mount as mount_task
            from services.task.settings import TaskSettings

            task = TaskSettings()
            return task.listen, await mount_task(task, common)
        case "review":
            from services.review.mount import mount as mount_review
            from services.review.settings import ReviewSettings

            review = ReviewSettings()
            return review.listen, await mount_review(review, common)
        case "asr":
            from services.asr.mount import mount as mount_asr
            from services.asr.settings import AsrSettings

            asr = AsrSettings()
            return asr.listen, await mount_asr(asr, common)
        case _:
            from services.ingest.mount import mount as mount_ingest
            from services.ingest.settings import IngestSettings

            # The key lies beside the database that it seals.
            ingest = _in(data_dir, IngestSettings(), sealing_key_file="ingest-sealing.key")
            return ingest.listen, await mount_ingest(ingest, common)


def _in(data_dir: Path, settings: S, **names: str) -> S:
    """Put files and folders that nobody placed elsewhere below the data folder."""
    placed = {
        field: data_dir / name for field, name in names.items() if field not in settings.model_fields_set
    }
    return settings.model_copy(update=placed)


def _worker_builders(data_dir: Path) -> tuple[Callable[[CommonSettings], Loop], ...]:
    """Return what builds each worker from the settings, which know all addresses by now."""
    from services.asr.slicing.mount import build_worker as build_slicing
    from services.asr.slicing.settings import SlicingWorkerSettings
    from services.asr.worker.mount import build_worker as build_asr
    from services.asr.worker.settings import AsrWorkerSettings
    from services.ingest.worker.mount import build_worker as build_ingest
    from services.ingest.worker.settings import IngestWorkerSettings

    return (
        lambda common: build_ingest(_in(data_dir, IngestWorkerSettings(), scratch="scratch/ingest"), common),
        lambda common: build_asr(
            _in(data_dir, AsrWorkerSettings(), model_cache="models", scratch_dir="scratch/asr"), common
        ),
        lambda common: build_slicing(
            _in(data_dir, SlicingWorkerSettings(), scratch="scratch/slicing"), common
        ),
    )
