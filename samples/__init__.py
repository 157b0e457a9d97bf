"""Sample input that ships with the project, and what reads or makes it."""
