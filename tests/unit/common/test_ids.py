"""Identifiers made by the application."""

import uuid

from libs.common.ids import uuid7


def test_ids_are_version_7_unique_and_in_the_order_they_were_made() -> None:
    made = [uuid7() for _ in range(10_000)]
    assert all(type(each) is uuid.UUID and each.version == 7 for each in made)
    assert len(set(made)) == len(made)
    assert made == sorted(made)
