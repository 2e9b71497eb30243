"""Word alignment: which words of a pair translate each other, and how well the pair fits.

Imports neither fairseq nor torch. `learning` estimates both directions' tables from text, `best_links` aligns with
them, `align_job` keeps the work of `deepnmt align` in a folder.
"""
