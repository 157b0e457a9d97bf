"""Let no key, object, row or trace travel in plaintext beyond this machine, unless a setting says so."""

from __future__ import annotations

from functools import cache
from urllib.parse import parse_qs, unquote, urlsplit

import structlog
from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from libs.common.credentials import InsecureTransport, is_loopback
from libs.common.redaction import Secret

log = structlog.get_logger(__name__)


class PlaintextSettings(BaseSettings):
    """What may be called over http:// beyond loopback."""

    model_config = SettingsConfigDict(env_prefix="FRONTROW_", frozen=True, extra="ignore")

    insecure_plaintext: bool = Field(default=False, description="allow plaintext beyond loopback, loudly")
    plaintext_hosts: str = Field(
        default="",
        description="hosts that alone may be called over http://, or as a database without TLS, loudly; "
        "by commas",
    )

    def permits(self, host: str) -> bool:
        """Tell whether a host may be called in plaintext."""
        named = {name.strip().lower() for name in self.plaintext_hosts.split(",")}
        return self.insecure_plaintext or host.lower() in named


def permit_url(url: str, what: str) -> None:
    """Let `url` be used for `what`: over TLS, on loopback, or, with a warning, where a setting permits it.

    The setting is looked up here, as the S3 client's own are: whoever opens a connection checks it.

    Raises:
        InsecureTransport: it is http:// to another machine, and nothing permits that.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme.lower() != "http" or is_loopback(f"[{host}]:0"):
        return
    if not PlaintextSettings().permits(host):
        raise InsecureTransport(
            f"{what} at {host} would go in plaintext: give an https:// address, or name the host in"
            " FRONTROW_PLAINTEXT_HOSTS on a network you trust"
        )
    log.warning(
        "transport.plaintext", address=host, what=what, advice="anyone on this network can read and forge it"
    )


class PostgresEnvironment(BaseSettings):
    """What PostgreSQL's clients read beside a database's address, where that doesn't say it."""

    model_config = SettingsConfigDict(frozen=True)

    host: str = Field(default="", validation_alias="PGHOST")
    sslmode: str = Field(default="", validation_alias="PGSSLMODE")
    service: str = Field(default="", validation_alias="PGSERVICE")
    password: Secret = Field(default=SecretStr(""), validation_alias="PGPASSWORD")


# Weaker ones take plaintext where the server, or whoever stands in for it, offers nothing else.
_ENCRYPTED = frozenset({"require", "verify-ca", "verify-full"})


def permit_database(url: str) -> None:
    """Let a database be used: by a socket, on loopback, over TLS, or loudly where a setting permits it.

    Raises:
        InsecureTransport: its rows could go to another machine in plaintext, and nothing permits that.
    """
    environment = PostgresEnvironment()
    parts = urlsplit(url)
    query = {name: ",".join(values) for name, values in parse_qs(parts.query).items()}
    if query.get("sslmode", environment.sslmode) in _ENCRYPTED:
        return
    for host in _hosts(parts.netloc, query, environment):
        if host.startswith(("/", "@")) or is_loopback(f"[{host}]:0"):
            continue
        if not PlaintextSettings().permits(host):
            raise InsecureTransport(
                f"the database at {host} could be called in plaintext: add ?sslmode=verify-full to its"
                " address, with its roots in PGSSLROOTCERT, or name the host in FRONTROW_PLAINTEXT_HOSTS on a"
                " network you trust"
            )
        _tell_of_database(host)


def _hosts(netloc: str, query: dict[str, str], environment: PostgresEnvironment) -> list[str]:
    """Return where the driver would look for the database; none: sockets and localhost."""
    listed = netloc.rpartition("@")[2]
    found = [_host(place) for place in listed.split(",")] if listed else []
    if not any(found):
        found = [_host(place) for place in query.get("host", environment.host).split(",")]
    if not any(found):  # of a service only the driver knows more
        found = [query.get("service", environment.service)]
    return [host for host in found if host]


def _host(place: str) -> str:
    """Return the host of `host:port`, `[address]:port` or a path."""
    place = unquote(place)
    if place.startswith(("/", "@")):
        return place
    if place.startswith("["):
        return place[1:].partition("]")[0]
    return place if place.count(":") > 1 else place.partition(":")[0]


@cache
def _tell_of_database(host: str) -> None:
    """Say it once: a pool opens many connections."""
    log.warning(
        "transport.plaintext", address=host, what="the database",
        advice="anyone on this network can read and forge it",
    )  # fmt: skip
