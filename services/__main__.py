"""Run everything in one process: `python -m services`, or `frontrow up`.

An embedded PostgreSQL (unless FRONTROW_DATABASE_URL names one), four servers, all workers. One ready line
with the addresses goes to stdout. SIGINT and SIGTERM stop cleanly, a second one at once; after `kill -9`
nothing of ours is left, and the next start works on the same data.
"""

import asyncio
import contextlib
import os
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TextIO

import structlog
from pydantic import ValidationError

from libs.common import database_roles, telemetry
from libs.common.postgres import EmbeddedPostgres, PostgresUnavailable
from libs.common.redaction import redacted
from libs.common.settings import TelemetrySettings, TransportSettings
from libs.common.settings_error import explain
from libs.common.signals import StopAsked, StopSignals
from services.access import RULES
from services.composition import Composition
from services.migrate import CONTEXTS
from services.place import embedded_postgres
from services.settings import ProcessSettings, common_settings
from services.state import DataFolderInUse, InstanceState, lock, remove_state, write_state

log = structlog.get_logger(__name__)


def main() -> int:
    """Run until a signal; return the exit status (2: settings are wrong, 1: it couldn't run)."""
    terminal: TextIO = sys.stderr
    try:
        process = ProcessSettings()
        if process.log_file is not None:
            terminal = _send_logs_to(process.log_file)
        telemetry.configure(TelemetrySettings(), "frontrow", transport=TransportSettings(), rules=RULES)
        with lock(process.data_dir):
            return asyncio.run(_serve(process))
    except ValidationError as error:
        terminal.write(f"frontrow: settings are wrong:\n{explain(error)}\n")
        return 2
    except (DataFolderInUse, PostgresUnavailable) as error:
        terminal.write(f"frontrow: {error}\n")
        return 1
    except Exception as error:
        log.exception("process.failed")
        terminal.write(f"frontrow: {redacted(str(error))}\n")
        return 1
    finally:
        telemetry.shut_down()


async def _serve(process: ProcessSettings) -> int:
    """Start everything, say so, wait for a signal, stop everything."""
    began = time.monotonic()
    signals = StopSignals()
    async with AsyncExitStack() as stack:
        stack.callback(remove_state, process.data_dir)
        with contextlib.suppress(StopAsked):
            embedded = "" if process.database_url else await _start_postgres(process, stack, signals)
            common = common_settings(process, embedded)
            composition = Composition(
                common,
                process.data_dir,
                workers=process.workers,
                ephemeral_ports=process.ephemeral_ports,
            )
            stack.push_async_callback(composition.stop)
            addresses = await signals.unless_asked(composition.start())
            kind = "external" if process.database_url else "embedded"
            write_state(
                process.data_dir, InstanceState(os.getpid(), addresses, kind, common.store.object_store)
            )
            _say_ready(addresses, process, time.monotonic() - began)
            await signals.wait()
        sys.stdout.write("Frontrow is stopping\n")
    sys.stdout.write("Frontrow has stopped\n")
    return 0


async def _start_postgres(process: ProcessSettings, stack: AsyncExitStack, signals: StopSignals) -> str:
    """Start the embedded PostgreSQL, keep it running until the stack unwinds; return its URL."""
    postgres = embedded_postgres(process.data_dir)
    stack.push_async_callback(postgres.stop)
    url = await signals.unless_asked(postgres.start())
    await database_roles.apply(url, CONTEXTS)
    keeper = asyncio.create_task(_keep_running(postgres), name="postgres-keeper")
    stack.push_async_callback(_cancelled, keeper)
    return url


async def _cancelled(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait({task})


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
