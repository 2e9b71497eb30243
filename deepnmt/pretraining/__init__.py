"""Pre-training on text of one language at a time: tasks whose checkpoints `deepnmt graft` turns into a start."""

# The task without a decoder.
ENCODER_ALONE = "deep_masked_lm"
# Of a task's state in checkpoints: the numbers of types that the dictionaries of source and target got.
ADDED = "pretraining_types"
# The parts of a model, by the beginnings of the names of their parameters.
TABLES = ("encoder.embed_tokens.", "decoder.embed_tokens.", "decoder.output_projection.")
PARTS = {"encoder": ("encoder.",), "decoder": ("decoder.",), "embeddings": TABLES}
