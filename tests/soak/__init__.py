"""Long proofs: a state machine against a model, and runs under faults; `make test` runs short forms."""
