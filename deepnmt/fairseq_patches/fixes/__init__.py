"""Faults of fairseq, mended; `why` names the public issue of github.com/facebookresearch/fairseq, if there is one."""
