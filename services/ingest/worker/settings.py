"""Settings of the ingest worker; read once by the process's entry."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class IngestWorkerSettings(BaseSettings):
    """What can be set for the ingest worker (FRONTROW_INGEST_WORKER_…)."""

    model_config = SettingsConfigDict(env_prefix="FRONTROW_INGEST_WORKER_", frozen=True, extra="ignore")

    listen: str = Field(default="127.0.0.1:7111", description="where to serve health, host:port")
    concurrency: int = Field(default=4, ge=1, le=100, description="galleries at once")
    downloads: int = Field(default=8, ge=1, le=64, description="images of one gallery at once")
    downloads_per_host: int = Field(
        default=8, ge=1, le=64, description="connections to one host, all galleries"
    )
    decoders: int = Field(
        default=os.cpu_count() or 2, ge=1, le=64, description="processes that decode images"
    )
    decoder_memory_bytes: int = Field(
        default=800_000_000, ge=200_000_000, description="address space of a decoder: never more is resident"
    )
    decode_timeout_seconds: float = Field(default=30.0, gt=0, le=600, description="limit of one decode")
    max_image_bytes: int = Field(default=20_000_000, ge=1, description="largest image, as sent and unpacked")
    connect_timeout_seconds: float = Field(
        default=10.0, gt=0, description="until a host answers the connection"
    )
    read_timeout_seconds: float = Field(default=15.0, gt=0, description="longest silence within a response")
    total_timeout_seconds: float = Field(
        default=60.0, gt=0, description="limit of one image with its redirects, once its host has room"
    )
    longest_host_wait_seconds: float = Field(
        default=30.0, ge=0, description="a host that asks for a longer pause gives the task back meanwhile"
    )
    free_host_pauses: int = Field(
        default=5,
        ge=0,
        description="pauses that a host may ask for of one image before each costs an attempt",
    )
    thumbnail_widths: tuple[int, ...] = Field(
        default=(320, 960), description="pixels; wider than none is made"
    )
    run_timeout_seconds: float = Field(default=3600.0, gt=0, description="limit of one gallery's run")
    allow_loopback: bool = Field(
        default=False, description="fetch from this machine itself: for a demo and tests, never in production"
    )
    scratch: Path = Field(
        default=Path(tempfile.gettempdir()) / "frontrow-ingest", description="folder for images in hand"
    )
