"""Take part in a training: the optimizer, and the watch for numbers that are not finite."""
