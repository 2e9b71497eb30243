"""Deep Transformers for machine translation, as a plug-in of fairseq (`--user-dir deepnmt`)."""
