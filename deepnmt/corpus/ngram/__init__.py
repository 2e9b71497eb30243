"""N-gram language models: how fluent a line is.

Imports neither fairseq nor torch. `kneser_ney` estimates a model from text, `arpa` reads and writes it, `ngram_model`
scores text by it.
"""
