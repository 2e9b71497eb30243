"""The choice among translations found by one or several searches (`docs/search.md`).

    text.nbest -> merged_lists -> model_scores -> feature_table -> selection by weights, which tuning finds
                       |
                       +-> consensus: by what the translations of a list have in common

Only `model_scores` imports fairseq.
"""

METRICS = ("chrf", "bleu")  # of likeness
STARTS = 20  # random starts of the search for weights
