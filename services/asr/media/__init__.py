"""Recordings as files: probing, one canonical copy with a right clock, audio, cuts and thumbnails."""
