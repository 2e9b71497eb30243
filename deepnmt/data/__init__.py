"""Training data that is made anew while a model is trained."""
