"""Tests of the demo's own judgement."""
