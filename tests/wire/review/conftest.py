"""The review server of the integration tests serves here too."""

from tests.integration.review.conftest import gallery, store, store_settings

__all__ = ["gallery", "store", "store_settings"]
