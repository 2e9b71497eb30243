"""Clean text: which pairs of a corpus are worth training on. The work of `deepnmt clean`.

    corpus -> chunks -> measures of each pair -> filters, and perhaps a classifier's score
                                                    |
    kept and rejected pairs, a table and a page  <- decisions over all pairs: duplicates, the best, unseen words

Chunks are measured by themselves, in any order and by any number of processes. Imports neither fairseq nor torch.
"""
