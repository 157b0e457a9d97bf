"""The review context against a model: promotion, keys and stored images, step by step and at once."""
