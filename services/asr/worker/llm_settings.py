"""Settings of the language model that finds topics; none is needed."""

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from libs.common.plaintext import permit_url
from libs.common.redaction import Secret


class LlmSettings(BaseSettings):
    """Where an OpenAI-compatible server is (FRONTROW_LLM_...); no base URL: the local method is used."""

    model_config = SettingsConfigDict(env_prefix="FRONTROW_LLM_", frozen=True, extra="ignore")

    base_url: str = Field(default="", description="Such as https://host/v1; empty: no language model.")
    model: str = Field(default="default", description="Name of the model, as the server knows it.")
    api_key: Secret = Field(default=SecretStr(""), description="Sent as a bearer token when it is set.")
    timeout_seconds: float = Field(
        default=300.0, gt=0, le=3600, description="Limit of one call; one window has 45 minutes, of clips 18."
    )
    attempts: int = Field(default=4, ge=1, le=10, description="Calls for one question before giving up.")
    first_pause_seconds: float = Field(
        default=1.0, ge=0, le=60, description="Pause after a first failed call; doubles up to 30 s."
    )
    max_answer_tokens: int = Field(default=4096, ge=256, le=65_536, description="Limit of one answer.")


def permit_key(settings: LlmSettings) -> None:
    """Let the key be sent. Raises InsecureTransport where it would go in plaintext beyond this machine."""
    if settings.api_key.get_secret_value():
        permit_url(settings.base_url, "the key of the language model")
