"""The network, as papers describe it."""
