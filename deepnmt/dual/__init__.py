"""Learning of two directions from text of one language."""
