"""Settings of the ASR worker; read once by the process's entry."""

import os
from pathlib import Path
from typing import Self

from pydantic import AliasChoices, Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from services.asr.worker.engine_settings import CloudEngineSettings, RemoteEngineSettings
from services.asr.worker.fetch_settings import FetchSettings
from services.asr.worker.llm_settings import LlmSettings

# A recording that a server recognises costs this machine next to nothing.
_REMOTE_LOOPS = 6


class AsrWorkerSettings(BaseSettings):
    """What can be set for the ASR worker (FRONTROW_ASR_WORKER_...)."""

    model_config = SettingsConfigDict(
        env_prefix="FRONTROW_ASR_WORKER_", frozen=True, extra="ignore", populate_by_name=True
    )

    listen: str = Field(
        default="127.0.0.1:7123", description="Where a worker process alone answers health checks, host:port."
    )
    concurrency: int = Field(
        default=0,
        ge=0,
        le=64,
        description="Recordings at once; 0: as many as there are cores, or 6 when a server recognises them.",
    )
    model_dir: Path | None = Field(
        default=None,
        validation_alias=AliasChoices("FRONTROW_ASR_MODEL_DIR", "ASR_MODEL_DIR"),
        description="A faster-whisper model folder; unset: Whisper base of the installed wheels.",
    )
    model_cache: Path = Field(
        default=Path("var/models"), description="Where the model of the wheels is put together."
    )
    device: str = Field(default="cpu", description="Device of faster-whisper: cpu, cuda or auto.")
    compute_type: str = Field(default="int8", description="Number format of faster-whisper.")
    beam_size: int = Field(default=5, ge=1, le=20, description="Beams of the search.")
    language: str = Field(default="", description="Language spoken, such as zh; empty: detected.")
    initial_prompt: str = Field(
        default="", description="Names and spellings to expect; never an instruction, it may be echoed."
    )
    chunk_seconds: int = Field(default=600, ge=10, le=3600, description="Length of a chunk, about.")
    cut_window_seconds: int = Field(
        default=60, ge=2, le=600, description="The end of a chunk in which the widest silence is cut."
    )
    run_timeout_seconds: float = Field(
        default=6 * 3600.0, gt=0, description="A run that takes longer is stopped and fails, retryable."
    )
    scratch_dir: Path = Field(default=Path("var/scratch"), description="Where a run's own folder is made.")
    debug_record: bool = Field(default=True, description="Keep what each stage did in the object store.")
    llm: LlmSettings = Field(
        default_factory=LlmSettings, description="The language model that finds topics, by FRONTROW_LLM_..."
    )
    remote_engine: RemoteEngineSettings = Field(
        default_factory=RemoteEngineSettings, description="A speech server, by FRONTROW_ASR_ENGINE_..."
    )
    fetch: FetchSettings = Field(
        default_factory=FetchSettings, description="Recordings by URL, by FRONTROW_ASR_FETCH_..."
    )
    cloud_engine: CloudEngineSettings = Field(
        default_factory=CloudEngineSettings, description="A service of jobs, by FRONTROW_ASR_CLOUD_..."
    )

    @property
    def loops(self) -> int:
        """Return how many recordings are worked on at once (domain.md 2.4)."""
        remote = self.remote_engine.url or self.cloud_engine.url
        return self.concurrency or (_REMOTE_LOOPS if remote else os.cpu_count() or 1)

    @model_validator(mode="after")
    def _want_one_engine(self) -> Self:
        if self.remote_engine.url and self.cloud_engine.url:
            raise ValueError("FRONTROW_ASR_ENGINE_URL and FRONTROW_ASR_CLOUD_URL are two engines: set one")
        return self
