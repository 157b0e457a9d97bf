"""Background duties of the ingest server."""
