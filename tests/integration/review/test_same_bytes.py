"""The same bytes uploaded while the clean-up deletes them; `make soak` does it 500 times."""

from __future__ import annotations

from tests.integration.review.stores import Store
from tests.soak.review.same_bytes import Loops


async def test_the_same_bytes_uploaded_while_they_are_cleaned_up_exist_in_the_end(any_store: Store) -> None:
    await Loops(any_store.gallery, any_store.database, any_store.store).run(8)
