"""Describe what a context puts on its server; the one seam between a context and how it is served."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import grpc
from google.protobuf import descriptor_pool

from libs.common.health import Health
from libs.common.interceptors.admission import IsUrgent
from libs.common.loops import Loop
from libs.common.readiness import Check


class Stopping:
    """Tell watches and long polls that the server stops; `mount` makes one and sets it in `on_stopping`."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """Begin to stop."""
        self._event.set()

    def is_set(self) -> bool:
        """Tell whether the server stops."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Return when the server stops."""
        await self._event.wait()


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class Mounted:
    """Hold what a context puts on its server.

    `register` adds the servicers, `service_names` are their full names (for health and reflection), `loops`
    run from after the start until after the last handler, `close` releases what they all stand on (channels,
    then the engine). `on_stopping` ends watches and long polls at the beginning of a stop. `long_polls` names
    the unary methods (`/package.Service/Method`) that may take longer than 30 s without a client's deadline.
    `room_for_waits` is how many calls may wait beside those that the server's limit lets in; the mount lets
    no more wait. `urgent` names the methods that keep what was done already, and tells which of their calls
    do: these are served however busy the server is. `checks_late` names the methods of one message whose
    handlers have something to look at before it, a signature for example: they get it as it came, None where
    the bytes are no message, and call `raw.checked_request`. `checks` name what the server stands on and tell
    whether it works; `health` is given by a mount that reports a state of its own.

    Raises:
        ValueError: `long_polls`, `urgent` or `checks_late` name what is no method of these services.
    """

    register: Callable[[grpc.aio.Server], None]
    service_names: tuple[str, ...]
    loops: Sequence[Loop]
    close: Callable[[], Awaitable[None]]
    on_stopping: Callable[[], None] = _nothing
    long_polls: Collection[str] = ()
    room_for_waits: int = 0
    urgent: Mapping[str, IsUrgent] = field(default_factory=dict)
    checks_late: Collection[str] = ()
    health: Health = field(default_factory=Health)
    checks: Mapping[str, Check] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse names that would never be met."""
        services = map(descriptor_pool.Default().FindServiceByName, self.service_names)
        methods = {
            f"/{service.full_name}/{method.name}" for service in services for method in service.methods
        }
        if strange := sorted({*self.long_polls, *self.urgent, *self.checks_late} - methods):
            raise ValueError(f"no methods of {', '.join(self.service_names)}: {', '.join(strange)}")
