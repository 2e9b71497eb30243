"""Faults of fairseq, mended.

`why` names the fault and its public issue at github.com/facebookresearch/fairseq, where one was found (2026-11-29).
"""
