"""Settings of the review context's server; read once by the process's entry."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class ReviewSettings(BaseSettings):
    """What can be set for the review server (FRONTROW_REVIEW_…)."""

    model_config = SettingsConfigDict(env_prefix="FRONTROW_REVIEW_", frozen=True, extra="ignore")

    listen: str = Field(default="127.0.0.1:7102", description="where to serve, host:port")
    publish_limit_bytes: int = Field(
        default=64 << 20,
        ge=1 << 20,
        description="larger originals aren't shown to the public, only thumbnails",
    )
