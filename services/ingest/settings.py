"""Settings of the ingest context's server; read once by the process's entry."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from libs.common.redaction import Secret


class IngestSettings(BaseSettings):
    """What can be set for the ingest server (FRONTROW_INGEST_…)."""

    model_config = SettingsConfigDict(env_prefix="FRONTROW_INGEST_", frozen=True, extra="ignore")

    listen: str = Field(default="127.0.0.1:7101", description="where to serve, host:port")
    sealing_key: Secret = Field(
        default=SecretStr(""),
        description="64 hex digits that seal spiders' secrets in the database; the same on every server",
    )
    sealing_key_file: Path = Field(
        default=Path("var/ingest-sealing.key"),
        description="file with the sealing key when `sealing_key` is empty; made at the first start",
    )
    window_seconds: int = Field(
        default=300, ge=1, le=3600, description="how far a signature's time may be off"
    )
    follow_interval_seconds: float = Field(default=3.0, gt=0, le=600, description="poll of the jobs' tasks")
    purge_interval_seconds: float = Field(
        default=60.0, gt=0, le=86400, description="between purges of old nonces"
    )
    max_attempts: int = Field(default=3, ge=1, le=100, description="tries of a job before it is failed")
    key_calls_per_second: float = Field(
        default=200.0, gt=0, description="submissions of one key that all servers together take, on average"
    )
    key_burst: int = Field(
        default=1000, ge=1, description="submissions of one key that all servers together take at once"
    )
