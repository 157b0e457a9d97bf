"""Run one context as a process: signals, telemetry, a clear word when it can't start, a graceful end."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import structlog
from pydantic import ValidationError

from libs.common import garbage, telemetry
from libs.common.access import Rules
from libs.common.context_server import AddressInUse, ContextServer
from libs.common.mounted import Mounted, Stopping
from libs.common.redaction import redacted
from libs.common.settings import TelemetrySettings, TransportSettings
from libs.common.settings_error import explain
from libs.common.signals import StopAsked, StopSignals

__all__ = ["AddressInUse", "ContextServer", "Mounted", "Stopping", "run"]

log = structlog.get_logger(__name__)

Mount = Callable[[], Awaitable[tuple[str, Mounted]]]


def run(name: str, mount: Mount, rules: Rules) -> int:
    """Serve what `mount` returns (address, Mounted) until SIGTERM or SIGINT; return the exit status.

    The first signal stops gracefully, a second one ends the process at once.
    """
    try:
        telemetry.configure(
            TelemetrySettings(), f"frontrow-{name}", transport=TransportSettings(), rules=rules
        )
        asyncio.run(_serve(name, mount, rules))
    except ValidationError as error:
        sys.stderr.write(f"{name}: settings are wrong:\n{explain(error)}\n")
        return 2
    except Exception as error:
        log.exception("server.failed", server=name)
        sys.stderr.write(f"{name}: {redacted(str(error))}\n")
        return 1
    finally:
        telemetry.shut_down()
    return 0


async def _serve(name: str, mount: Mount, rules: Rules) -> None:
    signals = StopSignals()
    async with AsyncExitStack() as stack:
        with contextlib.suppress(StopAsked):
            address, mounted = await signals.unless_asked(mount())
            server = ContextServer(name, address, mounted, transport=TransportSettings(), rules=rules)
            stack.push_async_callback(server.stop)
            await signals.unless_asked(server.start())
            garbage.spare_what_is_there()
            await signals.wait()
