"""What watches a training."""
