"""Data folders: from raw text, and from data folders.

    preprocessing.py     the request to `deepnmt preprocess`, checked, and its record
    data_pipeline.py     its steps, in their order
    splits.py            raw text to tokens: skipped, counted and held-out pairs
    subword_learning.py  codes of each kind, and the dictionaries of texts in subwords
    rewriting.py         texts from texts: true case, tags for numbers and addresses, subwords
    inline_pairs.py      training pairs with inline targets
    like_data.py         `deepnmt binarise`: more text, with the codes and dictionaries of a data folder
    mixing.py            `deepnmt mix`: one data folder from several

Imports neither fairseq nor torch.
"""
