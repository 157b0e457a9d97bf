"""500 times: the same bytes uploaded while the clean-up deletes them, on each kind of store."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.review.stores import Store
from tests.soak.review.same_bytes import Loops

LOOPS = 500


@pytest.mark.timeout(3600)
async def test_the_same_bytes_uploaded_while_they_are_cleaned_up_exist_in_the_end(
    any_store: Store, share: float, tell: Callable[[object], None]
) -> None:
    loops = Loops(any_store.gallery, any_store.database, any_store.store)
    await loops.run(max(8, round(LOOPS * share)))
    assert share < 1 or loops.refusals["MEDIA_BEING_DELETED"] > 0  # some came while theirs were being deleted
    tell(f"{any_store.name}: {loops.deleted} deletions, refused meanwhile: {dict(loops.refusals)}")
