"""The whole chain on sample input: `python -m demo` (or `make demo`). It checks its own results."""
