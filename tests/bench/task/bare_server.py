"""The task context on a server with nothing around its handlers: no checks, no telemetry."""

from __future__ import annotations

import asyncio
import logging
import signal

import grpc
import structlog

from libs.common import garbage, migrate
from libs.common.context_server import OPTIONS
from libs.common.settings import CommonSettings
from services.task.mount import mount
from services.task.settings import TaskSettings


async def main() -> None:
    """Serve until SIGTERM."""
    settings, common = TaskSettings(), CommonSettings.from_environment()
    await migrate.upgrade(common.database.url, "task")
    mounted = await mount(settings, common)
    server = grpc.aio.server(options=OPTIONS)
    mounted.register(server)
    server.add_insecure_port(settings.listen)
    await server.start()
    for loop in mounted.loops:
        await loop.start()
    garbage.spare_what_is_there()
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    await asked.wait()
    mounted.on_stopping()
    await server.stop(1.0)
    for loop in reversed(mounted.loops):
        await loop.stop()
    await mounted.close()


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    asyncio.run(main())
