"""The ingest worker: it downloads a gallery's images, verifies and stores them, and submits the draft.

It has no database: it speaks to the task service, to the ingest context and to review's intake.
"""
