"""Handle once what surrounds every call: errors, limits, validation, identity, telemetry."""
