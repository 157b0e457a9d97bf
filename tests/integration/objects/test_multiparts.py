"""Multipart uploads that their writers never ended, on real S3 servers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from libs.common.objects import StoreUnavailable, open_url
from libs.common.objects.s3 import SINGLE_PUT_BYTES
from libs.common.testing import eventually
from tests.integration.objects.servers import BUCKET, KEYS, moto_endpoint, seaweedfs_endpoint, store_url

PART = bytes(5 << 20)


@pytest.fixture(scope="module", params=["moto", "seaweedfs"])
def endpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "moto":
        with moto_endpoint() as running:
            yield running
    else:
        with seaweedfs_endpoint(tmp_path_factory.mktemp("weed")) as running:
            yield running


@pytest.fixture
def client(endpoint: str) -> Iterator[object]:
    found = boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1",
        aws_access_key_id=KEYS["access_key_id"], aws_secret_access_key=KEYS["secret_access_key"],
    )  # fmt: skip
    yield found
    found.close()


def pending(client: object) -> list[str]:
    """Return the keys of all uploads that are not ended."""
    found = client.list_multipart_uploads(Bucket=BUCKET)  # type: ignore[attr-defined]
    return sorted(upload["Key"] for upload in found.get("Uploads", []))


def begin(client: object, key: str) -> None:
    """Begin an upload, send one part, and leave it."""
    upload = client.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]  # type: ignore[attr-defined]
    client.upload_part(  # type: ignore[attr-defined]
        Bucket=BUCKET, Key=key, UploadId=upload, PartNumber=1, Body=PART
    )


async def test_uploads_left_open_are_ended_below_the_stores_prefix_alone(
    endpoint: str, client: object
) -> None:
    for key in ("mine/a", "mine/b 一", "mine/a", "minority/c", "others/d"):
        begin(client, key)
    store = open_url(store_url(endpoint, "mine"))
    assert await store.sweep_abandoned(older_than_seconds=-1) == 3
    assert pending(client) == ["minority/c", "others/d"]
    assert await store.sweep_abandoned(older_than_seconds=-1) == 0
    await open_url(store_url(endpoint, "")).sweep_abandoned(older_than_seconds=-1)
    assert pending(client) == []


@pytest.mark.parametrize("name", ["AWS_ENDPOINT", "AWS_ENDPOINT_URL"])
async def test_an_endpoint_of_the_environment_is_where_objects_go_and_where_uploads_are_ended(
    endpoint: str, client: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    surroundings = {"AWS_REGION": "us-east-1", **{f"AWS_{key.upper()}": KEYS[key] for key in KEYS}}
    for variable, value in (surroundings | {name: endpoint}).items():
        monkeypatch.setenv(variable, value)
    store = open_url(f"s3://{BUCKET}/by-environment")
    await store.put_bytes("object", b"1")
    assert await open_url(store_url(endpoint, "by-environment")).get_bytes("object") == b"1"
    begin(client, "by-environment/film")
    assert await store.sweep_abandoned(older_than_seconds=-1) == 1
    assert pending(client) == []


@pytest.mark.parametrize("endpoint", ["seaweedfs"], indirect=True)  # moto says 2010 of every upload
async def test_an_upload_that_may_be_at_work_is_left_alone(endpoint: str, client: object) -> None:
    begin(client, "young/film")
    store = open_url(store_url(endpoint, "young"))
    assert await store.sweep_abandoned() == 0
    assert await store.sweep_abandoned(older_than_seconds=60) == 0
    assert pending(client) == ["young/film"]
    assert await store.sweep_abandoned(older_than_seconds=-1) == 1


async def test_a_writer_killed_in_the_middle_leaves_nothing_once_it_was_swept(
    endpoint: str, client: object
) -> None:
    url = store_url(endpoint, "killed")
    size = SINGLE_PUT_BYTES * 8
    writes = "import asyncio, sys; from libs.common.objects import open_url; " \
        f"asyncio.run(open_url(sys.argv[1]).put_bytes('film', bytes({size})))"  # fmt: skip
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", writes, url)
    try:
        await eventually(lambda: pending(client) == ["killed/film"])
    finally:
        process.kill()
        await process.wait()
    store = open_url(url)
    assert await store.head("film") is None
    assert await store.sweep_abandoned(older_than_seconds=-1) == 1
    assert pending(client) == []


async def test_an_image_is_one_request_and_leaves_no_multipart_when_its_put_is_cancelled(
    endpoint: str, client: object, tmp_path: Path
) -> None:
    store = open_url(store_url(endpoint, "image"))
    (tmp_path / "image").write_bytes(bytes(20_000_000))
    for wait_seconds in (0.0, 0.005, 0.02, 0.05):
        put = asyncio.ensure_future(store.put_file("picture", tmp_path / "image"))
        await asyncio.wait({put}, timeout=wait_seconds)
        put.cancel()
        await asyncio.gather(put, return_exceptions=True)
        assert pending(client) == []
    await store.put_file("picture", tmp_path / "image")
    assert pending(client) == []


async def test_a_store_out_of_reach_can_not_be_swept() -> None:
    url = "s3://nowhere?endpoint=http://127.0.0.1:9&region=x&access_key_id=a&secret_access_key=b"
    with pytest.raises(StoreUnavailable):
        await open_url(url).sweep_abandoned()
