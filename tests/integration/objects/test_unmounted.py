"""A folder whose disk is unmounted, a bucket that isn't there: no object is missing then."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from libs.common.objects import ObjectMissing, ObjectStore, StoreUnavailable, open_url
from tests.integration.objects.servers import moto_endpoint, seaweedfs_endpoint, store_url

KEY, BODY = "recordings/one/canonical-1.mp4", b"what was stored"


async def _chunks() -> AsyncIterator[bytes]:
    yield BODY


async def _streamed(store: ObjectStore) -> list[bytes]:
    return [chunk async for chunk in store.stream(KEY)]


async def _listed(store: ObjectStore) -> list[str]:
    return [key async for key in store.list()]


async def _as_a_file(store: ObjectStore) -> None:
    async with store.local_path(KEY):
        pass


async def _put_a_stream(store: ObjectStore) -> None:
    await store.put_stream("other", _chunks())


USES: dict[str, Callable[[ObjectStore], Awaitable[object]]] = {
    "get_bytes": lambda store: store.get_bytes(KEY),
    "stream": _streamed,
    "head": lambda store: store.head(KEY),
    "local_path": _as_a_file,
    "list": _listed,
    "delete": lambda store: store.delete(KEY),
    "put_bytes": lambda store: store.put_bytes("other", BODY),
    "put_stream": _put_a_stream,
    "check": lambda store: store.check(),
}


def _empty(root: Path) -> None:
    root.mkdir()


def _a_file(root: Path) -> None:
    root.touch()


def _nothing(_root: Path) -> None:
    return None


@pytest.mark.parametrize("leave", [_empty, _a_file, _nothing])
@pytest.mark.parametrize("use", USES)
async def test_a_folder_that_went_away_is_unavailable(
    tmp_path: Path, use: str, leave: Callable[[Path], None]
) -> None:
    root, elsewhere = tmp_path / "objects", tmp_path / "disk"
    store = open_url(str(root))
    await store.put_bytes(KEY, BODY)
    root.rename(elsewhere)
    leave(root)
    with pytest.raises(StoreUnavailable, match="mounted"):
        await USES[use](store)
    if root.is_dir():
        assert list(root.iterdir()) == []
        root.rmdir()
    root.unlink(missing_ok=True)
    elsewhere.rename(root)
    assert await store.get_bytes(KEY) == BODY
    assert await _listed(store) == [KEY]


@pytest.mark.parametrize("use", ["put_bytes", "put_stream"])
async def test_a_folder_that_goes_away_before_a_file_is_put_in_its_place_isn_t_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    root, elsewhere = tmp_path / "objects", tmp_path / "disk"
    store = open_url(str(root))
    await store.put_bytes(KEY, BODY)
    fsync = os.fsync

    def unmounted_when_written(handle: int) -> None:
        fsync(handle)
        if root.is_dir():
            root.rename(elsewhere)

    monkeypatch.setattr(os, "fsync", unmounted_when_written)
    with pytest.raises(StoreUnavailable):
        await USES[use](store)
    assert not root.exists()
    elsewhere.rename(root)
    assert await _listed(store) == [KEY]


@pytest.mark.parametrize("use", ["get_bytes", "stream", "local_path"])
async def test_a_reader_that_starts_while_the_disk_is_away_isn_t_told_that_objects_are_missing(
    tmp_path: Path, use: str
) -> None:
    (tmp_path / "objects").touch()
    with pytest.raises(StoreUnavailable, match="mounted"):
        await USES[use](open_url(str(tmp_path / "objects")))


@pytest.fixture(scope="module", params=["moto", "seaweedfs"])
def endpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give a server with another bucket than ours."""
    served = moto_endpoint() if request.param == "moto" else seaweedfs_endpoint(tmp_path_factory.mktemp("s"))
    with served as address:
        yield address


# Some servers make a bucket of a put.
@pytest.mark.parametrize("use", sorted(set(USES) - {"put_bytes", "put_stream"}))
async def test_a_bucket_that_isn_t_there_is_unavailable(endpoint: str, use: str) -> None:
    url = urlsplit(store_url(endpoint, "under/here"))._replace(netloc="another")
    with pytest.raises(StoreUnavailable):
        await USES[use](open_url(urlunsplit(url)))


async def test_a_new_folder_has_no_objects(tmp_path: Path) -> None:
    store = open_url(str(tmp_path / "objects"))
    assert await store.head(KEY) is None
    assert await _listed(store) == []
    await store.delete(KEY)
    with pytest.raises(ObjectMissing):
        await store.get_bytes(KEY)
