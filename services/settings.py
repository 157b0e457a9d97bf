"""Settings of the one process that holds everything: where its data lies, and what it runs."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from libs.common.settings import (
    CommonSettings,
    DatabaseSettings,
    PeerSettings,
    StoreSettings,
    TelemetrySettings,
    TransportSettings,
)


class ProcessSettings(BaseSettings):
    """What `python -m services` reads beside the settings of its parts (FRONTROW_...)."""

    model_config = SettingsConfigDict(env_prefix="FRONTROW_", frozen=True, extra="ignore")

    data_dir: Path = Field(
        default=Path("var/data"), description="Database, objects and state of this instance."
    )
    database_url: str = Field(
        default="", description="postgresql://...; empty: an embedded PostgreSQL in the data folder."
    )
    object_store: str = Field(
        default="", description="Path or s3://bucket/prefix; empty: a folder in the data folder."
    )
    workers: bool = Field(
        default=True, description="Run the ingest, transcription and slicing workers here, too."
    )
    log_file: Path | None = Field(default=None, description="Where log lines go; none: standard error.")
    ephemeral_ports: bool = Field(
        default=False, description="Listen on free loopback ports; the ready line names them."
    )


def common_settings(process: ProcessSettings, embedded_url: str = "") -> CommonSettings:
    """Compose the settings that every context takes; the embedded database is known only once it runs.

    There each context has its role without further settings.
    """
    store = process.object_store or str(process.data_dir.absolute() / "objects")
    database = (
        DatabaseSettings(url=embedded_url, roles=True)
        if embedded_url
        else DatabaseSettings(url=process.database_url)
    )
    return CommonSettings(
        database=database,
        transport=TransportSettings(),
        peers=PeerSettings(),
        store=StoreSettings(object_store=store),
        telemetry=TelemetrySettings(),
    )
