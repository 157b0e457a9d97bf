"""The whole product under bad clients, too much load and faults."""
