"""Functions of tensors with a backward pass of their own; they know neither fairseq nor options."""
