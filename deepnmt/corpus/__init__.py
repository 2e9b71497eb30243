"""Tools for parallel corpora: cleaning, word alignment, n-gram models, selection. Imports neither fairseq nor torch."""
