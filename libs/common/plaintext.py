"""Let no key, no object and no trace travel in plaintext beyond this machine, unless a setting says so."""

from __future__ import annotations

from urllib.parse import urlsplit

import structlog
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from libs.common.credentials import InsecureTransport, is_loopback

log = structlog.get_logger(__name__)


class PlaintextSettings(BaseSettings):
    """What may be called over http:// beyond loopback."""

    model_config = SettingsConfigDict(env_prefix="FRONTROW_", frozen=True, extra="ignore")

    insecure_plaintext: bool = Field(default=False, description="allow plaintext beyond loopback, loudly")
    plaintext_hosts: str = Field(
        default="", description="hosts that alone may be called over http://, loudly; by commas"
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
