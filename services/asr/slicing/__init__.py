"""The slicing worker: chooses clips of a recording, cuts and stores them, and gives each its words."""
