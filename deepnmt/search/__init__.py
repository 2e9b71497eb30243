"""Beam search with the results of fairseq's `SequenceGenerator`, in less time, for all its commands."""
