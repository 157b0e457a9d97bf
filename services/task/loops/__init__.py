"""Background duties of the task server, one class a file."""
