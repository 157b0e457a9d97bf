"""Fixtures of the worker library's tests: a real task server."""

from tests.integration.task.conftest import address, tasks

__all__ = ["address", "tasks"]
