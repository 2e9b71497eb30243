"""Ranges and defaults of a search's options, for all their readers."""

# A larger beam is no better, and one of 1,000 exhausts memory.
BEAM = 256
# Exponents of a length: far beyond useful ones, powers of lengths overflow.
LENPEN = 100
DEFAULT_BEAM = 5
DEFAULT_LENPEN = 1.0
# Sentences of a batch.
DEFAULT_BATCH_SIZE = 128
# Length penalties compared by a sweep.
DEFAULT_LENPENS = "0.6,0.8,1,1.2,1.4,1.6,1.8,2"
