"""More pairs than there are: from monolingual text by translating it, and from a teacher's translations.

    synthesis.py     what is made from what: the options of `deepnmt synthesise`, checked and recorded
    pair_making.py   ... and how: chunks of translations, then a data folder
    chunks.py        the part of the work that is lost when a process is killed, and the parts of several machines
    decoding.py      lines of subwords to translations: beam search, greedy search, sampling
    closest.py       the one of several translations that is closest to the reference (31)
    noise.py         words left out, blanked and moved (29)
    pairs.py         translations to pairs: what is dropped, noise, tags
    round_recipe.py  iterative back-translation and distillation: the recipes
    rounds.py        ... and which command comes next
    round_checks.py  ... and what must be there before the first

`docs/synthetic.md` says what for. Only `decoding.py` imports fairseq.
"""
