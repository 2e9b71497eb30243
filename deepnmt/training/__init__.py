"""Parts of a training: the optimizer, and the watch for non-finite numbers."""
