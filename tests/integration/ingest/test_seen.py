"""What a seen article costs: at most two statements in review, no request, no store call (domain.md 3.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from frontrow.ingest.v1 import ingest_job_pb2
from frontrow.review.v1 import intake_service_pb2
from sqlalchemy import event
from sqlalchemy.engine import Engine

from libs.common.client import error_info
from tests.integration.ingest.chain import Chain


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """Give all statements that this process's engines execute, the servers' included."""
    found: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: Any) -> None:
        found.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    yield found
    event.remove(Engine, "before_cursor_execute", note)


async def test_a_seen_article_causes_two_statements_in_review_and_neither_a_request_nor_a_store_call(
    chain: Chain, article: str, statements: list[str]
) -> None:
    await chain.work()
    url = chain.site.picture("1.jpg")
    first = await chain.ended(await chain.submit(url, url=article))
    asked = [statement for statement in statements if "review." in statement]
    assert len(asked) > 2  # the listener hears review's statements
    for counted in (chain.site.hits, chain.store.calls, statements):
        counted.clear()
    again = await chain.ended(await chain.submit(url, url=article))
    assert (again.done_reason, again.blocker.id) == (
        ingest_job_pb2.DONE_REASON_SOURCE_DUPLICATE,
        first.draft_id,
    )
    asked = [statement for statement in statements if "review." in statement]
    assert 1 <= len(asked) <= 2, asked
    assert (sum(chain.site.hits.values()), sum(chain.store.calls.values())) == (0, 0)


async def test_twenty_duplicates_over_one_pooled_connection_are_twenty_skips(
    chain: Chain, article: str
) -> None:
    await chain.work()
    first = await chain.ended(await chain.submit(chain.site.picture("20.jpg", 20), url=article))
    draft = await chain.draft(first.draft_id)
    for number in range(20):  # one after another: the pool hands out the same connection each time
        request = intake_service_pb2.CreateRunwayDraftRequest(
            job_id=f"duplicate-{number}",
            title="again",
            source=draft.source,
            source_url=article,
            runway=intake_service_pb2.RunwayTexts(brand="Gucci", season_code="FW26"),
            images=[intake_service_pb2.IntakeImage(media_key=draft.images[0].media_key)],
        )
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await chain.intake.CreateRunwayDraft(request)
        found = error_info(caught.value)
        assert (found.reason, found.metadata["draft_id"]) == ("SOURCE_EXISTS", first.draft_id), number
