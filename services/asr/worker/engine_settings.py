"""Settings of speech recognition by a server; without a URL the engine on this machine is used."""

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class RemoteEngineSettings(BaseSettings):
    """Where a server with OpenAI's transcription call is (FRONTROW_ASR_ENGINE_...)."""

    model_config = SettingsConfigDict(env_prefix="FRONTROW_ASR_ENGINE_", frozen=True, extra="ignore")

    url: str = Field(default="", description="Such as https://host/v1; empty: the engine on this machine.")
    model: str = Field(default="whisper-1", description="Name of the model, as the server knows it.")
    api_key: SecretStr = Field(default=SecretStr(""), description="Sent as a bearer token when it is set.")
    timeout_seconds: float = Field(default=900.0, gt=0, le=3600, description="Limit of one chunk's call.")
    attempts: int = Field(default=4, ge=1, le=10, description="Calls for one chunk before giving up.")
    first_pause_seconds: float = Field(
        default=1.0, ge=0, le=60, description="Pause after a first failed call; doubles up to 30 s."
    )
