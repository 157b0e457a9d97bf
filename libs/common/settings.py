"""Hold the settings every process shares; only `__main__` and the command line read the environment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from libs.common.redaction import note_secret


class DatabaseSettings(BaseSettings):
    """Say where PostgreSQL is and how much of it one process may use."""

    model_config = SettingsConfigDict(env_prefix="FRONTROW_DATABASE_", frozen=True)

    url: str = Field(description="postgresql://user:password@host/name, with +asyncpg or without")
    pool_size: int = Field(default=5, ge=1, le=100, description="connections kept open")
    max_overflow: int = Field(default=5, ge=0, le=100, description="connections beyond those under load")
    pool_timeout_seconds: float = Field(default=3.0, gt=0, le=60, description="wait for a free connection")
    command_timeout_seconds: float = Field(default=30.0, gt=0, le=600, description="limit of a statement")
    statement_timeout_ms: int = Field(default=30_000, ge=0, description="limit kept by the server, 0 = none")
    idle_in_transaction_timeout_ms: int = Field(default=60_000, ge=0, description="0 = never")
    statement_cache_size: int = Field(default=100, ge=0, description="0 behind pgbouncer in transaction mode")
    roles: bool = Field(
        default=False,
        description="connect as the role of the context, frontrow_<context>, instead of the URL's user; its "
        "password is in PGPASSFILE or in the file of the URL's ?passfile=",
    )

    @field_validator("url")
    @classmethod
    def _name_the_driver(cls, url: str) -> str:
        parts = urlsplit(url)
        note_secret(unquote(parts.password or ""))
        if "password" in (given := dict(parse_qsl(parts.query))):  # command lines would tell it
            note_secret(given["password"])
            raise ValueError("the password stands before the host, user:password@host, or in a ?passfile=")
        scheme, separator, rest = url.partition("://")
        if scheme in {"postgresql", "postgres"}:
            return f"postgresql+asyncpg{separator}{rest}"
        if scheme != "postgresql+asyncpg":
            raise ValueError("must begin with postgresql:// or postgresql+asyncpg://")
        return url

    def of(self, context: str) -> Self:
        """Return what one context connects with: as its own role, where ``roles`` says so."""
        if not self.roles:
            return self
        parts = urlsplit(self.url)
        place = parts.netloc.rpartition("@")[2]
        url = urlunsplit(parts._replace(netloc=f"{quote(role_of(context))}@{place}"))
        return self.model_copy(update={"url": url})


def role_of(context: str) -> str:
    """Return the name of the database role that owns the context's schema."""
    return f"frontrow_{context}"


class TransportSettings(BaseSettings):
    """Say how calls travel. Loopback needs nothing; any other address TLS or the loud plaintext setting."""

    model_config = SettingsConfigDict(env_prefix="FRONTROW_", frozen=True)

    tls_cert: Path | None = Field(default=None, description="PEM chain a server shows")
    tls_key: Path | None = Field(default=None, description="PEM key of tls_cert")
    tls_ca: Path | None = Field(default=None, description="PEM roots a client trusts; none = the system's")
    tls_client_ca: Path | None = Field(
        default=None,
        description="PEM roots of the certificates that processes show; none = they need none",
    )
    tokens_file: Path | None = Field(
        default=None,
        description="the tokens a server takes, with roles; none = all may call everything",
    )
    process_listen: str = Field(
        default="",
        description="host:port beside the listen address, for processes with a certificate; empty: with "
        "tls_client_ca the one address demands it",
    )
    token_file: Path | None = Field(default=None, description="the one token this process calls others with")
    insecure_plaintext: bool = Field(default=False, description="allow plaintext beyond loopback, loudly")
    max_concurrent_rpcs: int = Field(
        default=1000,
        ge=1,
        description="calls of each kind (work, streams, ends of runs) one server runs at once at most",
    )

    @classmethod
    def loopback_only(cls) -> Self:
        """Return the defaults without a look at the environment: no TLS, no plaintext beyond loopback."""
        return cls.model_construct()

    @model_validator(mode="after")
    def _want_both_halves(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("FRONTROW_TLS_CERT and FRONTROW_TLS_KEY belong together: set both or neither")
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise ValueError("FRONTROW_TLS_CLIENT_CA needs FRONTROW_TLS_CERT and FRONTROW_TLS_KEY")
        if self.process_listen and self.tls_client_ca is None:
            raise ValueError("FRONTROW_PROCESS_LISTEN needs FRONTROW_TLS_CLIENT_CA")
        return self


class PeerSettings(BaseSettings):
    """Say where the other servers are, as host:port or any gRPC target."""

    model_config = SettingsConfigDict(env_prefix="FRONTROW_", frozen=True)

    ingest_address: str = Field(default="127.0.0.1:7101", description="the ingest context")
    review_address: str = Field(default="127.0.0.1:7102", description="the review context")
    asr_address: str = Field(default="127.0.0.1:7103", description="the asr context")
    task_address: str = Field(default="127.0.0.1:7104", description="the task context")


class StoreSettings(BaseSettings):
    """Say where objects are kept."""

    model_config = SettingsConfigDict(env_prefix="FRONTROW_", frozen=True)

    object_store: str = Field(
        default="var/objects", description="a path, file://path or s3://bucket/prefix?endpoint=https://host"
    )


class TelemetrySettings(BaseSettings):
    """Say what a process reports about itself."""

    model_config = SettingsConfigDict(env_prefix="FRONTROW_", frozen=True)

    log_level: str = Field(default="INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$")
    otlp_endpoint: str | None = Field(default=None, description="OTLP/gRPC collector, as https://host:4317")
    traces_per_second: float = Field(
        default=10.0, ge=0, description="new traces recorded at most; what continues a recorded one always is"
    )
    metric_interval_seconds: float = Field(default=15.0, gt=0, description="between two pushes of metrics")
    metrics_listen: str = Field(
        default="",
        description="host:port where Prometheus fetches /metrics of this process; empty: nowhere",
    )

    @property
    def measures(self) -> bool:
        """Whether anybody is told of metrics, so that taking those that cost a query is worth it."""
        return bool(self.otlp_endpoint or self.metrics_listen)


class OtlpEnvironment(BaseSettings):
    """What the exporters read themselves: keys of the collector among it, which are noted as secrets."""

    model_config = SettingsConfigDict(frozen=True)

    headers: str = Field(default="", repr=False, validation_alias="OTEL_EXPORTER_OTLP_HEADERS")


@dataclass(frozen=True)
class CommonSettings:
    """Bundle what every mount takes beside its context's own settings; built once, by a `__main__`."""

    database: DatabaseSettings
    transport: TransportSettings
    peers: PeerSettings
    store: StoreSettings
    telemetry: TelemetrySettings

    @classmethod
    def from_environment(cls) -> CommonSettings:
        """Read every part from FRONTROW_* variables. Raises ValidationError naming what is wrong."""
        return cls(
            database=DatabaseSettings(),  # type: ignore[call-arg]  # the url comes from the environment
            transport=TransportSettings(),
            peers=PeerSettings(),
            store=StoreSettings(),
            telemetry=TelemetrySettings(),
        )

    def of(self, context: str) -> CommonSettings:
        """Return the same with the database as one context sees it."""
        return replace(self, database=self.database.of(context))
