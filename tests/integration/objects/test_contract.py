"""One contract for every kind of store: a local folder, moto's S3 and SeaweedFS."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from libs.common.objects import InvalidKey, ObjectMissing, ObjectStore, StoreUnavailable, open_url
from tests.integration.objects.servers import moto_endpoint, seaweedfs_endpoint, store_url

BIG = (32 << 20) + 1  # a multipart upload, on a store that has them


@pytest.fixture(scope="module", params=["folder", "moto", "seaweedfs"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    folder = tmp_path_factory.mktemp("store")
    if request.param == "folder":
        yield open_url(str(folder))
    elif request.param == "moto":
        with moto_endpoint() as endpoint:
            yield open_url(store_url(endpoint, "under/here"))
    else:
        with seaweedfs_endpoint(folder) as endpoint:
            yield open_url(store_url(endpoint, "under/here"))


async def chunks_of(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def test_the_body_read_back_is_the_body_written_byte_for_byte(store: ObjectStore) -> None:
    for size in (0, 1, 4096, BIG):
        body = os.urandom(size)
        await store.put_bytes(f"bytes/{size}", body)
        assert await store.get_bytes(f"bytes/{size}") == body
        info = await store.head(f"bytes/{size}")
        assert info is not None
        assert info.size == size


async def test_a_file_and_a_stream_come_back_as_they_were(store: ObjectStore, tmp_path: Path) -> None:
    body = os.urandom(BIG)
    source = tmp_path / "source.bin"
    source.write_bytes(body)
    await store.put_file("whole/file", source)
    assert await store.put_stream("whole/stream", chunks_of(body[:5], b"", body[5:])) == BIG
    for key in ("whole/file", "whole/stream"):
        digest = hashlib.sha256()
        async for chunk in store.stream(key, chunk_bytes=1 << 16):
            assert 0 < len(chunk) <= 1 << 16
            digest.update(chunk)
        assert digest.hexdigest() == hashlib.sha256(body).hexdigest()


async def test_a_moved_file_is_in_the_store_and_nowhere_else(store: ObjectStore, tmp_path: Path) -> None:
    body, source = os.urandom(BIG), tmp_path / "source.bin"
    for key in ("moved/first", "moved/second"):
        source.write_bytes(body)
        await store.move_file(key, source)
        assert not source.exists()
    source.write_bytes(b"the next file of this name")
    assert [await store.get_bytes(f"moved/{which}") for which in ("first", "second")] == [body, body]
    with pytest.raises(FileNotFoundError):
        await store.move_file("moved/missing", tmp_path / "missing")
    assert await store.head("moved/missing") is None


async def test_a_file_is_moved_across_file_systems_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rename(source: Path, target: Path) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "rename", rename)
    store, source = open_url(str(tmp_path / "store")), tmp_path / "source.bin"
    source.write_bytes(b"body")
    await store.move_file("a/b", source)
    assert await store.get_bytes("a/b") == b"body"
    assert not source.exists()


async def test_a_stream_starts_where_it_is_told(store: ObjectStore) -> None:
    await store.put_bytes("range/object", b"0123456789")
    assert b"".join([c async for c in store.stream("range/object", start=7)]) == b"789"
    assert [c async for c in store.stream("range/object", start=10)] == []
    assert [c async for c in store.stream("range/object", start=99)] == []


async def test_a_missing_object_is_said_to_be_missing(store: ObjectStore) -> None:
    assert await store.head("no/such") is None
    with pytest.raises(ObjectMissing):
        await store.get_bytes("no/such")
    with pytest.raises(ObjectMissing):
        _ = [c async for c in store.stream("no/such")]
    with pytest.raises(ObjectMissing):
        async with store.local_path("no/such"):
            pass


async def test_deleting_twice_is_fine(store: ObjectStore) -> None:
    await store.put_bytes("gone/object", b"x")
    await store.delete("gone/object")
    await store.delete("gone/object")
    assert await store.head("gone/object") is None


async def test_a_source_that_fails_leaves_nothing_visible(store: ObjectStore) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        await store.put_stream("broken/object", broken())
    assert await store.head("broken/object") is None


async def test_a_listing_names_the_keys_below_a_folder_only(store: ObjectStore) -> None:
    for key in ("list/a/1", "list/a/2", "list/ab/3"):
        await store.put_bytes(key, b"x")
    assert sorted([k async for k in store.list("list/a")]) == ["list/a/1", "list/a/2"]
    assert sorted([k async for k in store.list("list/")]) == ["list/a/1", "list/a/2", "list/ab/3"]
    assert {"list/a/1", "list/ab/3"} <= {k async for k in store.list()}
    assert [k async for k in store.list("nothing/here")] == []


async def test_an_object_can_be_read_as_a_local_file(store: ObjectStore) -> None:
    await store.put_bytes("media/clip 一.mp4", b"film")
    async with store.local_path("media/clip 一.mp4") as path:
        assert path.read_bytes() == b"film"


async def test_a_put_replaces_and_parallel_puts_of_one_key_leave_one_whole_body(store: ObjectStore) -> None:
    bodies = [bytes([i]) * 100_000 for i in range(8)]
    await asyncio.gather(*(store.put_bytes("race/object", body) for body in bodies))
    assert await store.get_bytes("race/object") in bodies


@pytest.mark.parametrize(
    "key", ["", "/etc/passwd", "a//b", "../up", "a/../b", "a/./b", "a\x00b", ".tmp/x", "a" * 901]
)
async def test_a_key_that_is_no_plain_path_is_refused(store: ObjectStore, key: str) -> None:
    with pytest.raises(InvalidKey):
        await store.put_bytes(key, b"x")
    with pytest.raises(InvalidKey):
        await store.head(key)


async def test_a_store_that_works_passes_its_check(store: ObjectStore) -> None:
    await store.check()


async def test_a_store_out_of_reach_is_unavailable_and_not_missing() -> None:
    unreachable = open_url(
        "s3://nowhere?endpoint=http://127.0.0.1:9&region=x&access_key_id=a&secret_access_key=b"
    )
    with pytest.raises(StoreUnavailable):
        await unreachable.head("some/object")


async def test_a_folder_that_is_a_file_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailable):
        await open_url(str(tmp_path / "file")).put_bytes("a/b", b"x")


@contextmanager
def files_may_hold(size_bytes: int) -> Iterator[None]:
    """Let every write beyond the size fail, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("chunk", [1000, 1 << 18])
async def test_a_disk_that_fills_up_is_unavailable_and_leaves_nothing_half(
    tmp_path: Path, chunk: int
) -> None:
    store = open_url(str(tmp_path))
    body = os.urandom(3 << 20)
    pieces = [body[start : start + chunk] for start in range(0, len(body), chunk)]
    with files_may_hold(1 << 20):
        with pytest.raises(StoreUnavailable):
            await store.put_stream("a/stream", chunks_of(*pieces))
        with pytest.raises(StoreUnavailable):
            await store.put_bytes("a/bytes", body)
    assert [key async for key in store.list()] == []
    assert os.listdir(tmp_path / ".tmp") == []
    assert await store.put_stream("a/stream", chunks_of(body)) == len(body)
    assert await store.get_bytes("a/stream") == body


async def test_what_a_killed_writer_left_aside_is_swept_and_nothing_else(tmp_path: Path) -> None:
    store = open_url(str(tmp_path))
    await store.put_bytes("a/b", b"x")
    left, fresh = tmp_path / ".tmp" / "left", tmp_path / ".tmp" / "fresh"
    left.write_bytes(b"half")
    fresh.write_bytes(b"being written")
    os.utime(left, (1, 1))
    assert await store.sweep_abandoned() == 1
    assert os.listdir(tmp_path / ".tmp") == ["fresh"]
    assert await store.get_bytes("a/b") == b"x"


async def test_no_file_is_left_aside_after_puts(tmp_path: Path) -> None:
    store = open_url(f"file://{tmp_path}")
    await store.put_bytes("a/b", b"x")
    assert [key async for key in store.list()] == ["a/b"]
    assert os.listdir(tmp_path / ".tmp") == []


@pytest.mark.parametrize("url", ["gs://bucket", "s3://", "s3://bucket?endpoynt=x"])
def test_a_url_that_names_no_store_says_what_would(url: str) -> None:
    with pytest.raises(ValueError, match=r"s3://"):
        open_url(url)
