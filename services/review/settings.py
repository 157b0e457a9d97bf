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
    publish_room_bytes: int = Field(
        default=256 << 20,
        ge=1 << 20,
        description="memory for images that the public reads now; who finds no room is told to come again",
    )
    clean_up_grace_seconds: float = Field(
        default=86_400.0,
        ge=0,
        description="an image stays untouched so long, then marked so long, before it goes",
    )
    clean_up_share: float = Field(
        default=0.2, gt=0, le=1, description="a clean-up that would delete more than this share is refused"
    )
    clean_up_plausible_count: int = Field(
        default=100, ge=0, description="so many images may be deleted whatever share they are"
    )
