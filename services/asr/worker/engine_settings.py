"""Settings of speech recognition by a server; without any URL the engine on this machine is used."""

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from libs.common.redaction import Secret


class RemoteEngineSettings(BaseSettings):
    """Where a server with OpenAI's transcription call is (FRONTROW_ASR_ENGINE_...)."""

    model_config = SettingsConfigDict(env_prefix="FRONTROW_ASR_ENGINE_", frozen=True, extra="ignore")

    url: str = Field(default="", description="Such as https://host/v1; empty: the engine on this machine.")
    model: str = Field(default="whisper-1", description="Name of the model, as the server knows it.")
    api_key: Secret = Field(default=SecretStr(""), description="Sent as a bearer token when it is set.")
    timeout_seconds: float = Field(default=840.0, gt=0, le=3600, description="Limit of one chunk's call.")
    attempts: int = Field(default=4, ge=1, le=10, description="Calls for one chunk before giving up.")
    first_pause_seconds: float = Field(
        default=1.0, ge=0, le=60, description="Pause after a first failed call; doubles up to 30 s."
    )


class CloudEngineSettings(BaseSettings):
    """Where a service that takes jobs is (FRONTROW_ASR_CLOUD_...); its contract is docs/speech-engines.md."""

    model_config = SettingsConfigDict(env_prefix="FRONTROW_ASR_CLOUD_", frozen=True, extra="ignore")

    url: str = Field(default="", description="Such as https://host/asr/v1; empty: none.")
    model: str = Field(default="default", description="Name of the model, as the service knows it.")
    api_key: Secret = Field(default=SecretStr(""), description="Sent as a bearer token when it is set.")
    timeout_seconds: float = Field(default=120.0, gt=0, le=3600, description="Limit of one call.")
    attempts: int = Field(default=4, ge=1, le=10, description="Submissions of one chunk before giving up.")
    first_pause_seconds: float = Field(
        default=1.0, ge=0, le=60, description="Pause after a first failed submission; doubles up to 30 s."
    )
    poll_seconds: float = Field(default=10.0, gt=0, le=600, description="Pause before each poll of a job.")
    polls: int = Field(default=360, ge=1, le=100_000, description="Polls of one job before giving up.")
    missed_polls: int = Field(
        default=6, ge=1, le=1000, description="Failed polls in a row after which the service counts as away."
    )
    withdraw_seconds: float = Field(
        default=2.0, gt=0, le=30, description="Limit of the call that withdraws a job nobody wants any more."
    )
