"""What is mended in fairseq."""
