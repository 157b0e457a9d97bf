"""Find the servers and call them; say in plain words what went wrong."""

import asyncio
import getpass
import os
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
import grpc
from pydantic import ValidationError

from cli.cures import cure
from libs.common import settings_error
from libs.common.client import connect, error_info
from libs.common.settings import PeerSettings, TransportSettings
from libs.common.statuses import ErrorDetail
from services.state import InstanceState, read_state

T = TypeVar("T")

CALL_SECONDS = 20.0


@dataclass(frozen=True)
class Connection:
    """Where the servers are: by settings, else as noted by the instance in `data_dir`, else the defaults."""

    data_dir: Path

    def address(self, context: str) -> str:
        """Return `host:port` of one context's server."""
        peers = PeerSettings()
        field = f"{context}_address"
        configured: str = getattr(peers, field)
        state = self.running()
        if field in peers.model_fields_set or state is None:
            return configured
        return state.addresses.get(context, configured)

    def running(self) -> InstanceState | None:
        """Return what a running instance noted in the data folder; None when none runs there."""
        return read_state(self.data_dir)

    @asynccontextmanager
    async def channel(self, context: str) -> AsyncIterator[grpc.aio.Channel]:
        """Open a channel to one context for a `with` block."""
        channel = self.open(context)
        try:
            yield channel
        finally:
            await channel.close()

    def open(self, context: str) -> grpc.aio.Channel:
        """Open a channel to one context; the caller closes it."""
        return connect(self.address(context), transport=TransportSettings(), actor=actor())

    def run(self, context: str, work: Coroutine[Any, Any, T]) -> T:
        """Run one command's calls to a context; turn failures into a message with what to do."""
        try:
            return asyncio.run(work)
        except grpc.aio.AioRpcError as error:
            raise click.ClickException(explain(error, context, self.address(context))) from error
        except ValidationError as error:
            raise click.ClickException(f"settings are wrong:\n{settings_error.explain(error)}") from error
        except KeyboardInterrupt:
            raise click.Abort from None


def actor() -> str:
    """Return who acts, for the servers' history: `FRONTROW_ACTOR`, else the login name."""
    if named := os.environ.get("FRONTROW_ACTOR"):
        return named
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return "cli"


def explain(error: grpc.aio.AioRpcError, context: str, address: str) -> str:
    """Return reason and cure of a failed call in one or a few lines."""
    return told(error_info(error), context, address)


def told(detail: ErrorDetail, context: str, address: str) -> str:
    """Return reason and cure of a refusal, or what a call without an answer may be due to."""
    if detail.code == grpc.StatusCode.UNAVAILABLE and not detail.reason:
        return (
            f"no {context} server answers at {address}.\n"
            "  Is Frontrow running?       frontrow up\n"
            "  Runs it in another folder? frontrow --data-dir DIR …  (or FRONTROW_DATA_DIR)\n"
            f"  On another machine?        FRONTROW_{context.upper()}_ADDRESS=host:port"
        )
    if detail.code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"the {context} server at {address} took too long; `frontrow status` tells if it is well"
    if detail.code == grpc.StatusCode.UNIMPLEMENTED:
        return f"the {context} server at {address} doesn't know this call: it is older than this command"
    lines = [f"{detail.reason or detail.code.name}: {detail.message}"]
    violations = [f"{violation.field}: {violation.description}" for violation in detail.violations]
    lines += [f"  {violation}" for violation in violations if violation not in detail.message]
    lines += [f"  {key}: {value}" for key, value in sorted(detail.metadata.items()) if value]
    if advice := cure(context, detail.reason or ""):
        lines.append(f"  {advice}")
    return "\n".join(lines)
