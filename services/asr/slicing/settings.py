"""Settings of the slicing worker; read once by the process's entry."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from services.asr.worker.llm_settings import LlmSettings


class SlicingWorkerSettings(BaseSettings):
    """What can be set for the slicing worker (FRONTROW_SLICING_...)."""

    model_config = SettingsConfigDict(env_prefix="FRONTROW_SLICING_", frozen=True, extra="ignore")

    listen: str = Field(default="127.0.0.1:7113", description="A lone worker's health address.")
    concurrency: int = Field(default=1, ge=1, le=64, description="Projects at once; a cut uses all cores.")
    scratch: Path = Field(default=Path("var/scratch"), description="Folder for a run's own temporary folder.")
    run_timeout_seconds: float = Field(default=21_600.0, gt=0, description="A longer run fails, retryable.")
    merge_gap_ms: int = Field(default=500, ge=0, le=60_000, description="Matches this near become one clip.")
    lead_ms: int = Field(default=100, ge=0, le=2000, description="Most silence before the first word.")
    tail_ms: int = Field(default=300, ge=0, le=2000, description="Most silence behind the last word.")
    shortest_ms: int = Field(default=5000, ge=0, description="Matches grow within their paragraph to this.")
    llm: LlmSettings = Field(
        default_factory=LlmSettings, description="The language model, see FRONTROW_LLM_...; none is needed."
    )
    longest_piece_ms: int = Field(default=180_000, ge=10_000, description="Longest clip without topics.")
