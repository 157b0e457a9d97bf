"""Settings of the asr context's server; read once by the process's entry."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class AsrSettings(BaseSettings):
    """What can be set for the asr server (FRONTROW_ASR_...)."""

    model_config = SettingsConfigDict(env_prefix="FRONTROW_ASR_", frozen=True, extra="ignore")

    listen: str = Field(default="127.0.0.1:7103", description="Where to serve, host:port.")
    follow_interval_seconds: float = Field(
        default=3.0, gt=0, le=600, description="Poll of the tasks that are followed."
    )
    upload_part_bytes: int = Field(
        default=8 << 20, ge=1 << 16, le=1 << 28, description="Size of an upload's stored parts."
    )
    upload_keep_hours: float = Field(
        default=168.0, gt=0, description="Unfinished or unused uploads are removed after."
    )
    removal_interval_seconds: float = Field(
        default=30.0, gt=0, le=86400, description="Between removals of doomed objects."
    )
    indexing_interval_seconds: float = Field(
        default=300.0, gt=0, le=86400, description="Between looks for paragraphs that aren't indexed yet."
    )
    debug_cleanup_interval_seconds: float = Field(
        default=300.0, gt=0, le=86400, description="Between clean-ups of the debug records."
    )
    debug_keep_runs: int = Field(
        default=20,
        ge=0,
        le=100_000,
        description="Records kept beside pinned, running and last failed ones.",
    )
    debug_keep_bytes: int = Field(default=2 << 30, ge=0, description="Bytes of all debug records together.")
