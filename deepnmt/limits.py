"""What is too much for a search, wherever its options are read."""

# More translations of a sentence at a time are no search, and 1,000 of them fill the memory.
BEAM = 256
# Exponents of a length: far beyond those that help, powers of lengths are no numbers any more.
LENPEN = 100
