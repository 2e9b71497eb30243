"""Selection of pairs that are like a given text. Imports neither fairseq nor torch."""
