"""Reading, writing and rewriting checkpoints."""
