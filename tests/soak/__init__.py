"""Long proofs: a state machine against a model, and runs under faults. `make soak`; short forms in `make test`."""
