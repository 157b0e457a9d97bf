"""Long work on media comes in calls that end: each says where the next goes on."""

from __future__ import annotations

from datetime import timedelta

import pytest
from frontrow.review.v1 import media_service_pb2 as pb
from frontrow.review.v1 import media_service_pb2_grpc

from libs.common.db import Database
from libs.common.objects import ObjectStore
from services.review import cleanup, servicer_media
from services.review.cleanup import CleanUpLimits, CleanUpResult, MediaCare, Progress
from tests.integration.review.gallery import Gallery, acting, stored, unique
from tests.integration.review.test_media_care import pass_time, states

GRACE = timedelta(hours=24)


@pytest.fixture
def care(database: Database, store: ObjectStore) -> MediaCare:
    return MediaCare(database, store, CleanUpLimits(GRACE, share=1, plausible=1000))


async def in_short_calls(care: MediaCare, *, apply: bool = True) -> list[CleanUpResult]:
    """Run a clean-up whose calls have no time at all."""
    results = [await care.clean_up(actor="ops", apply=apply, seconds=0)]
    while (rest := results[-1].rest) is not None:
        results.append(await care.clean_up(actor="ops", apply=apply, start=rest, seconds=0))
    return results


async def test_a_clean_up_in_many_short_calls_does_what_a_long_one_does(
    gallery: Gallery,
    database: Database,
    store: ObjectStore,
    care: MediaCare,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cleanup, "WINDOW_ROWS", 2)
    monkeypatch.setattr(cleanup, "DELETE_BATCH", 2)
    names = [unique("page") for _ in range(7)]
    keys = [await stored(gallery, store, name) for name in names]
    await gallery.street(unique("Paged"), 2026, 2, names[:2])
    await pass_time(database, 2 * GRACE)
    reports = await in_short_calls(care, apply=False)
    marks = await in_short_calls(care)
    assert len(marks) > 3
    for results in (reports, marks):
        assert sum(result.marked_count for result in results) == 5
        assert {result.total_count for result in results} == {7}
    await pass_time(database, 2 * GRACE)
    announced = await in_short_calls(care, apply=False)
    assert sum(result.deleted_count for result in announced) == 5
    deletes = await in_short_calls(care)
    assert sum(result.deleted_count for result in deletes) == 5
    assert Progress(looked=True) in [result.rest for result in deletes]
    assert await states(database, *keys) == ["live"] * 2 + [None] * 5
    assert [await store.head(key) is None for key in keys] == [False] * 2 + [True] * 5


async def test_operators_follow_the_tokens_of_a_clean_up_and_of_a_comparison(
    gallery: Gallery, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "WINDOW_ROWS", 1)
    monkeypatch.setattr(servicer_media, "PAGE_SECONDS", 0)
    operator = media_service_pb2_grpc.MediaServiceStub(gallery.channel)
    key = await stored(gallery, store, unique("token"))
    await stored(gallery, store, unique("token"))
    await store.delete(key)
    request, calls = pb.CleanUpMediaRequest(apply=True), 0
    while calls == 0 or request.page_token:
        reply = await operator.CleanUpMedia(request, metadata=acting("ops"))
        request.page_token, calls = reply.next_page_token, calls + 1
    assert calls >= 2
    compared, damaged = 0, []
    asked = pb.VerifyMediaRequest(page_size=50)
    while compared == 0 or asked.page_token:
        page = await operator.VerifyMedia(asked)
        assert page.checked_count == 1  # no time for more
        compared += page.checked_count
        damaged += [item.key for item in page.damaged]
        asked.page_token = page.next_page_token
    assert compared >= 2
    assert key in damaged
