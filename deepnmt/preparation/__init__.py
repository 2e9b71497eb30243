"""Data folders: from raw text, and from data folders.

    preprocessing.py     the request to `deepnmt preprocess`, checked, and its record
    data_pipeline.py     its steps, in their order
    splits.py            raw text to tokens: skipped, counted and held-out pairs
    numbered_text.py     texts as numbers of their distinct words
    stage_bar.py         one progress bar over all steps
    subword_learning.py  codes of each kind, and the dictionaries of texts in subwords
    merge_learning.py    the merges of a BPE
    cut_text.py          texts in subwords and their numbers, from the pieces of distinct words
    rewriting.py         texts from texts: true case, tags for numbers and addresses, subwords with dropout
    inline_pairs.py      training pairs with inline targets
    like_data.py         `deepnmt binarise`: more text, with the codes and dictionaries of a data folder
    mixing.py            `deepnmt mix`: one data folder from several

Imports neither fairseq nor torch.
"""
