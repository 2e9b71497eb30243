"""Data folders: from raw text, and from data folders.

    preprocessing.py     what `deepnmt preprocess` is asked for, checked, and its record
    data_pipeline.py     its steps, in their order
    splits.py            raw text to tokens: what is skipped, and what is counted
    held_out.py          validation pairs out of the training pairs
    true_casing.py       true case for whole texts
    tagging.py           tags in the place of numbers and addresses
    subword_learning.py  codes of each kind
    segmenting.py        tokens to subwords
    dictionaries.py      the types of texts in subwords, and further ones
    inline_pairs.py      training pairs with inline targets
    like_data.py         `deepnmt binarise`: more text, with the codes and dictionaries of a data folder
    mixing.py            `deepnmt mix`: one data folder from several

Imports neither fairseq nor torch.
"""
