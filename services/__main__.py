"""Run everything in one process: `python -m services`, or `frontrow up`.

An embedded PostgreSQL (unless FRONTROW_DATABASE_URL names one), four servers, all workers. One ready line
with the addresses goes to stdout. SIGINT and SIGTERM stop cleanly, a second one at once; after `kill -9`
nothing of ours is left, and the next start works on the same data.
"""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import TextIO

import structlog
from pydantic import ValidationError

from libs.common import telemetry
from libs.common.postgres import EmbeddedPostgres, PostgresUnavailable
from libs.common.settings import TelemetrySettings
from services.composition import Composition
from services.settings import ProcessSettings, common_settings
from services.state import DataFolderInUse, InstanceState, lock, remove_state, write_state

log = structlog.get_logger(__name__)

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main() -> int:
    """Run until a signal; return the exit status (2: settings are wrong, 1: it couldn't run)."""
    terminal: TextIO = sys.stderr
    try:
        process = ProcessSettings()
        if process.log_file is not None:
            terminal = _send_logs_to(process.log_file)
        telemetry.configure(TelemetrySettings(), "frontrow")
        with lock(process.data_dir):
            return asyncio.run(_serve(process))
    except ValidationError as error:
        terminal.write(f"frontrow: settings are wrong: {error}\n")
        return 2
    except (DataFolderInUse, PostgresUnavailable) as error:
        terminal.write(f"frontrow: {error}\n")
        return 1
    except Exception as error:
        log.exception("process.failed")
        terminal.write(f"frontrow: {error}\n")
        return 1
    finally:
        telemetry.shut_down()


async def _serve(process: ProcessSettings) -> int:
    """Start everything, say so, wait for a signal, stop everything."""
    began = time.monotonic()
    asked = _listen_for_signals()
    postgres = None if process.database_url else EmbeddedPostgres(process.data_dir / "postgres")
    keeper: asyncio.Task[None] | None = None
    composition: Composition | None = None
    try:
        url = process.database_url
        if postgres is not None:
            url = await postgres.start()
            keeper = asyncio.create_task(_keep_running(postgres), name="postgres-keeper")
        common = common_settings(process, url)
        composition = Composition(
            common,
            process.data_dir,
            workers=process.workers,
            ephemeral_ports=process.ephemeral_ports,
        )
        addresses = await composition.start()
        kind = "external" if postgres is None else "embedded"
        write_state(process.data_dir, InstanceState(os.getpid(), addresses, kind, common.store.object_store))
        _say_ready(addresses, process, time.monotonic() - began)
        await asked.wait()
        sys.stdout.write("Frontrow is stopping\n")
    finally:
        if composition is not None:
            await composition.stop()
        if keeper is not None:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
        if postgres is not None:
            await postgres.stop()
        remove_state(process.data_dir)
    sys.stdout.write("Frontrow has stopped\n")
    return 0


def _listen_for_signals() -> asyncio.Event:
    """Return an event that the first SIGINT or SIGTERM sets; the next one does what it does by default."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ask() -> None:
        asked.set()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, ask)
    return asked


async def _keep_running(postgres: EmbeddedPostgres) -> None:
    """Start PostgreSQL again on the same socket whenever it ends by itself; calls recover."""
    while True:
        returncode = await postgres.wait()
        log.error("postgres.ended", returncode=returncode)
        try:
            await postgres.start()
            log.info("postgres.restarted")
        except Exception:  # whatever it was, it must be tried again
            log.exception("postgres.restart_failed")
            await asyncio.sleep(1)


def _say_ready(addresses: dict[str, str], process: ProcessSettings, seconds: float) -> None:
    """Print the one line that people and programs wait for."""
    where = "  ".join(f"{name} {address}" for name, address in sorted(addresses.items()))
    sys.stdout.write(
        f"Frontrow is ready in {seconds:.1f} s: {where}  (data {process.data_dir}; Ctrl-C stops)\n"
    )
    sys.stdout.flush()


def _send_logs_to(log_file: Path) -> TextIO:
    """Let file descriptor 2 (children's, too) write to a file; return the terminal it wrote to before."""
    log_file.parent.mkdir(parents=True, exist_ok=True)
    terminal = os.fdopen(os.dup(2), "w", encoding="utf-8")
    with log_file.open("ab") as log_stream:
        os.dup2(log_stream.fileno(), 2)
    return terminal


if __name__ == "__main__":
    sys.exit(main())
