"""What a worker process stands on; it has no database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from libs.common.settings import PeerSettings, StoreSettings, TransportSettings


class Surroundings(Protocol):
    """What a worker needs of the settings that all processes share."""

    @property
    def transport(self) -> TransportSettings:
        """How calls travel."""

    @property
    def peers(self) -> PeerSettings:
        """Where the servers are."""

    @property
    def store(self) -> StoreSettings:
        """Where objects are kept."""


@dataclass(frozen=True)
class WorkerSurroundings:
    """The surroundings of a worker in a process of its own."""

    transport: TransportSettings
    peers: PeerSettings
    store: StoreSettings

    @classmethod
    def from_environment(cls) -> WorkerSurroundings:
        """Read them from FRONTROW_* variables. Raises ValidationError naming what is wrong."""
        return cls(TransportSettings(), PeerSettings(), StoreSettings())
