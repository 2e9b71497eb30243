"""Features of the package where fairseq has no registry for them."""
