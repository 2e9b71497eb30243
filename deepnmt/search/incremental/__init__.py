"""A decoder one position at a time.

Each file names its twins, the files that compute the same for all positions at once. A change in one of them requires
a change in the other. The comparison with fairseq's generator in the tests fails if they differ.

Two layouts of rows, one for each of N sentences' M hypotheses, are in use, and named wherever rows are:

    hypothesis-major, MN   the first hypothesis of all sentences, then the second of all; inside the decoder, whose
                           heads then take their channels of a row as they lie, as in the model's T x B x C
    sentence-major, NM     all hypotheses of the first sentence, then those of the second; outside of the decoder
"""
