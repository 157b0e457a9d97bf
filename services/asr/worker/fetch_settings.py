"""Settings of recordings that are fetched from the web."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class FetchSettings(BaseSettings):
    """How recordings are fetched (FRONTROW_ASR_FETCH_...)."""

    model_config = SettingsConfigDict(env_prefix="FRONTROW_ASR_FETCH_", frozen=True, extra="ignore")

    max_bytes: int = Field(
        default=64 << 30, ge=1, le=256 << 30, description="Largest recording that is fetched."
    )
    piece_bytes: int = Field(
        default=16 << 20,
        ge=1 << 16,
        le=256 << 20,
        description="What is kept at once, so that another run goes on behind it; held in memory.",
    )
    attempts: int = Field(
        default=5, ge=1, le=100, description="Broken transfers in a row that bring nothing before giving up."
    )
    first_pause_seconds: float = Field(
        default=1.0, ge=0, le=60, description="Pause after a first broken transfer; doubles up to 30 s."
    )
    connect_timeout_seconds: float = Field(default=10.0, gt=0, le=300, description="Until a host answers.")
    read_timeout_seconds: float = Field(default=30.0, gt=0, le=3600, description="Longest silence within.")
    longest_host_wait_seconds: float = Field(
        default=30.0, ge=0, le=3600, description="A host that asks for more gives the task back meanwhile."
    )
    allow_loopback: bool = Field(
        default=False,
        description="Fetch from this machine itself: for a demo and tests alone.",
    )
