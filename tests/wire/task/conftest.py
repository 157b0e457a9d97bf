"""Fixtures of the task service's wire tests."""

from tests.integration.task.conftest import address, tasks

__all__ = ["address", "tasks"]
