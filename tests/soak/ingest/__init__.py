"""The ingest context under kills of everything it stands on, against a model."""
