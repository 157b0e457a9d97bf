"""The pipeline's settings, from Scrapy.

FRONTROW_INGEST_ADDRESS, FRONTROW_SPIDER_KEY_ID, FRONTROW_SPIDER_SECRET and FRONTROW_TLS_CA may come from
environment variables of the same names instead; FRONTROW_INSECURE_PLAINTEXT, FRONTROW_DEADLINE_SECONDS and
FRONTROW_BATCH are read from Scrapy's settings alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
from frontrow.worker.dial import Dial

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

DEADLINE_SECONDS = 300.0


@dataclass(frozen=True)
class Configuration:
    """Where to submit, as whom, and how long one item is tried."""

    dial: Dial
    key_id: str
    secret: str
    deadline_seconds: float
    batch: str
    """Name of the crawl; empty for a fresh one."""

    @classmethod
    def read(cls, settings: BaseSettings) -> Configuration:
        """Read the settings. Raises ValueError naming those that are missing: items would be lost."""
        names = ("FRONTROW_INGEST_ADDRESS", "FRONTROW_SPIDER_KEY_ID", "FRONTROW_SPIDER_SECRET")
        values = {name: settings.get(name) or os.environ.get(name, "") for name in names}
        missing = [name for name, value in values.items() if not value]
        if missing:
            raise ValueError(
                f"{', '.join(missing)}: not set, neither in Scrapy's settings nor in the environment;"
                " `frontrow spiders add NAME` prints a key"
            )
        address, key_id, secret = (str(values[name]) for name in names)
        authority = settings.get("FRONTROW_TLS_CA") or os.environ.get("FRONTROW_TLS_CA", "")
        dial = Dial(
            address,
            grpc.ssl_channel_credentials(Path(authority).read_bytes()) if authority else None,
            settings.getbool("FRONTROW_INSECURE_PLAINTEXT"),
        )
        deadline = settings.getfloat("FRONTROW_DEADLINE_SECONDS", DEADLINE_SECONDS)
        return cls(dial, key_id, secret, deadline, settings.get("FRONTROW_BATCH") or "")
