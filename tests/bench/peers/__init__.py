"""Adapters of other queues: processes of their own, in the environment of requirements/bench.lock."""
