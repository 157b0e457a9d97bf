"""Open the object store that a URL names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from libs.common.objects.local import LocalStore
from libs.common.objects.s3 import S3Store
from libs.common.objects.store import ObjectStore
from libs.common.plaintext import permit_url
from libs.common.redaction import Secret, note_secret

if TYPE_CHECKING:
    from libs.common.settings import StoreSettings

S3_OPTIONS = {"endpoint", "region", "access_key_id", "secret_access_key", "session_token"}


class S3Environment(BaseSettings):
    """What the environment says of S3 beside keys, under each of the names it goes by.

    Endpoint and region are read here for both clients: one of them doesn't know `AWS_ENDPOINT`, nor
    `AWS_REGION`. The keys both read themselves; here they are noted as secrets.
    """

    model_config = SettingsConfigDict(frozen=True)

    endpoint: str = Field(
        default="", validation_alias=AliasChoices("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    )
    secret_access_key: Secret = Field(default=SecretStr(""), validation_alias="AWS_SECRET_ACCESS_KEY")
    session_token: Secret = Field(default=SecretStr(""), validation_alias="AWS_SESSION_TOKEN")
    region: str = Field(default="", validation_alias=AliasChoices("AWS_REGION", "AWS_DEFAULT_REGION"))


def open_store(settings: StoreSettings) -> ObjectStore:
    """Open the store of the settings; nothing is touched until it is used. Raises ValueError."""
    return open_url(settings.object_store)


def open_url(url: str) -> ObjectStore:
    """Open a store by URL: a path, `file:///path`, or `s3://bucket/prefix?endpoint=…&region=…`.

    What the query doesn't say is taken from the AWS_* environment, the endpoint from `AWS_ENDPOINT_URL_S3`,
    `AWS_ENDPOINT_URL` or `AWS_ENDPOINT`, the region from `AWS_REGION` or `AWS_DEFAULT_REGION`.

    Raises:
        ValueError: the scheme or an option is unknown, or the bucket is missing.
        InsecureTransport: the endpoint would be called in plaintext beyond this machine.
    """
    parts = urlsplit(url)
    if parts.scheme == "s3":
        return _open_s3(parts.netloc, parts.path, parts.query)
    if parts.scheme == "file":
        return LocalStore(Path(unquote(parts.path)))
    if "://" in url:
        raise ValueError(f"unknown object store scheme {parts.scheme!r}: use a path, file:// or s3://")
    return LocalStore(Path(url))


def _open_s3(bucket: str, path: str, query: str) -> ObjectStore:
    options = dict(parse_qsl(query, strict_parsing=bool(query)))
    unknown = sorted(set(options) - S3_OPTIONS)
    if unknown:
        raise ValueError(f"unknown options {unknown} in the s3:// URL: {sorted(S3_OPTIONS)} are known")
    if not bucket:
        raise ValueError("the s3:// URL names no bucket: s3://bucket/prefix")
    for name in ("secret_access_key", "session_token"):
        note_secret(options.get(name, ""))
    environment = S3Environment()
    found = {"endpoint": environment.endpoint, "region": environment.region}
    config = {name: value for name, value in found.items() if value} | options
    permit_url(config.get("endpoint", ""), "the object store")
    return S3Store(bucket, unquote(path).strip("/"), config)
