"""Identifiers made by the application."""

import uuid

from uuid_utils import compat


def uuid7() -> uuid.UUID:
    """Make a UUIDv7: unique without asking anybody, and sorted by the time it was made.

    Made here and not by the database, since PostgreSQL has ``uuidv7()`` only from 18 on.
    """
    return compat.uuid7()
