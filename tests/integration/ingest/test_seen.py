"""What a seen article costs: at most two statements in review, no request, no store call (domain.md 3.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from frontrow.ingest.v1 import ingest_job_pb2
from sqlalchemy import event
from sqlalchemy.engine import Engine

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
