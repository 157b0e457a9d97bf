"""End multipart uploads that nobody will finish: the part of S3 that obstore has no calls for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

from libs.common.objects.store import StoreUnavailable

CONNECT_SECONDS = 5
READ_SECONDS = 30
TRIES = 3
# S3 names the right region in its refusal, and the client follows; others take any.
_ANY_REGION = "us-east-1"


def end_abandoned(bucket: str, prefix: str, config: dict[str, str], *, older_than_seconds: float) -> int:
    """End the uploads below `prefix` that began longer ago than that; return how many. Blocks.

    `config` has obstore's names; keys that it leaves out are found by the client in the environment.

    Raises:
        StoreUnavailable: the bucket can't be reached or refuses us.
    """
    from botocore.exceptions import BotoCoreError, ClientError  # 60 ms that only a sweep needs

    before = datetime.now(UTC) - timedelta(seconds=older_than_seconds)
    ended = 0
    try:
        with closing(_client(config)) as client:
            for upload in _uploads(client, bucket, prefix):
                if upload["Initiated"] <= before and _end(client, bucket, upload):
                    ended += 1
    except (BotoCoreError, ClientError) as error:
        raise StoreUnavailable(f"the object store failed ({type(error).__name__})") from error
    return ended


def _client(config: dict[str, str]) -> Any:
    from botocore.config import Config
    from botocore.session import Session

    session = Session()
    endpoint = config.get("endpoint")
    return session.create_client(
        "s3",
        region_name=config.get("region") or session.get_config_variable("region") or _ANY_REGION,
        endpoint_url=endpoint,
        aws_access_key_id=config.get("access_key_id"),
        aws_secret_access_key=config.get("secret_access_key"),
        aws_session_token=config.get("session_token"),
        config=Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"total_max_attempts": TRIES, "mode": "standard"},
            s3={"addressing_style": "path" if endpoint else "auto"},
        ),
    )


def _uploads(client: Any, bucket: str, prefix: str) -> Iterator[dict[str, Any]]:
    below = f"{prefix}/" if prefix else ""
    pages = client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=below)
    for page in pages:
        # not every server keeps to the prefix
        yield from (upload for upload in page.get("Uploads", ()) if upload["Key"].startswith(below))


def _end(client: Any, bucket: str, upload: dict[str, Any]) -> bool:
    """End one upload; False when it is over already, by its writer or by another sweep."""
    from botocore.exceptions import ClientError

    try:
        client.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
    except ClientError as error:
        if error.response["Error"]["Code"] in {"NoSuchUpload", "404"}:
            return False
        raise
    return True
