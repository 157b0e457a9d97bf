"""Measure the task context beside the queues people use today; `make bench` runs it."""
