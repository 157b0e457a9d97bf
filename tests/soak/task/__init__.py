"""The task context against a model, and under faults."""
