"""The stores that a soak of stored images runs on."""

from tests.integration.review.stores import any_store

__all__ = ["any_store"]
