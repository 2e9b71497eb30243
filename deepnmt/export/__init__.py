"""From checkpoints to a model folder that translates: writing it for an engine, and checking that both agree."""
