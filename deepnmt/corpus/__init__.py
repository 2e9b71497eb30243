"""Tools for parallel corpora: cleaning, word alignment, n-gram models, selection. Imports neither fairseq nor torch.

scipy and scikit-learn, which only this room needs, come with the extra `deepnmt[corpus]`.
"""
