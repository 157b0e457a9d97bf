"""The servers of the asr tests, and what was heard by a run that nothing interrupted."""

from tests.integration.asr.conftest import bed, engine

__all__ = ["bed", "engine"]
