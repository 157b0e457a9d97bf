"""Settings of the ASR worker; read once by the process's entry."""

import os
from pathlib import Path

from pydantic import AliasChoices, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from services.asr.worker.engine_settings import RemoteEngineSettings
from services.asr.worker.llm_settings import LlmSettings


class AsrWorkerSettings(BaseSettings):
    """What can be set for the ASR worker (FRONTROW_ASR_WORKER_...)."""

    model_config = SettingsConfigDict(
        env_prefix="FRONTROW_ASR_WORKER_", frozen=True, extra="ignore", populate_by_name=True
    )

    listen: str = Field(
        default="127.0.0.1:7123", description="Where a worker process alone answers health checks, host:port."
    )
    concurrency: int = Field(
        default_factory=lambda: os.cpu_count() or 1,
        ge=1,
        le=64,
        description="Recordings at once; the number of cores suits an engine on this machine.",
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
