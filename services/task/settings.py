"""Settings of the task context's server; read once by the process's entry."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

Lease = Annotated[float, Field(ge=0.5, le=86_400)]
Stall = Annotated[float, Field(ge=1, le=2_592_000)]

_LEASES = {"ai_slice": 120.0, "draft": 120.0, "ai_slice_draft": 120.0}
_STALLS = {"asr": 3_600.0, "ai_slice": 1_200.0, "draft": 3_600.0, "ai_slice_draft": 5_400.0}


class TaskSettings(BaseSettings):
    """What can be set for the task server (FRONTROW_TASK_…). Every time is the database's."""

    model_config = SettingsConfigDict(env_prefix="FRONTROW_TASK_", frozen=True, extra="ignore")

    listen: str = Field(default="127.0.0.1:7104", description="where to serve, host:port")
    lease_seconds: Lease = Field(default=60.0, description="silence after which a run counts as lost")
    lease_seconds_by_type: dict[str, Lease] = Field(
        default=_LEASES, description="leases of single types, as JSON; the others take lease_seconds"
    )
    stall_seconds: Stall = Field(
        default=3_600.0, description="time without progress after which a run counts as stuck"
    )
    stall_seconds_by_type: dict[str, Stall] = Field(
        default=_STALLS, description="stall limits of single types, as JSON; the others take stall_seconds"
    )
    max_attempts: int = Field(default=5, ge=1, le=100, description="runs of a task whose creator names none")
    sweep_interval_seconds: float = Field(
        default=3.0, gt=0, le=600, description="between looks for lost runs"
    )
    poll_seconds: float = Field(
        default=3.0, gt=0, le=600, description="between looks for work while somebody waits: the guarantee"
    )
    max_waiting_claims: int = Field(
        default=4_000, ge=1, le=100_000, description="claims that may wait at once; one more looks only"
    )
    due_interval_seconds: float = Field(
        default=3.0, gt=0, le=600, description="longest time between looks for tasks that have fallen due"
    )
    lost_claim_seconds: float = Field(
        default=10.0,
        gt=0,
        le=600,
        description="age from which a run its worker never names may be given back",
    )
    retry_base_seconds: float = Field(
        default=1.0, ge=0, le=600, description="ceiling of the pause after a first retryable failure"
    )
    retry_longest_seconds: float = Field(
        default=600.0, ge=0, le=86_400, description="ceiling of the pause after any retryable failure"
    )
    keep_finished_days: float = Field(
        default=90.0, gt=0, description="age at which a finished task is deleted"
    )
    retention_interval_seconds: float = Field(
        default=60.0, gt=0, le=86_400, description="between deletions of old finished tasks"
    )
