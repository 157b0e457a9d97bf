"""Keep objects (images, recordings, clips) in a local folder or an S3 bucket by one interface."""

from libs.common.objects.open import open_store, open_url
from libs.common.objects.store import (
    InvalidKey,
    ObjectInfo,
    ObjectMissing,
    ObjectStore,
    ObjectStoreError,
    StoreUnavailable,
)

__all__ = [
    "InvalidKey",
    "ObjectInfo",
    "ObjectMissing",
    "ObjectStore",
    "ObjectStoreError",
    "StoreUnavailable",
    "open_store",
    "open_url",
]
