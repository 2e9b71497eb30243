"""Refusals in one line, where fairseq fails late, hangs or gives a wrong result."""
