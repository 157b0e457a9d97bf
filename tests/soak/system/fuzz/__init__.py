"""Bad clients: requests made from descriptors, streams that break off, tokens of others."""
