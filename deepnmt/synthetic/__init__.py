"""More pairs than there are: from monolingual text by translating it, and from a teacher's translations.

    synthesis.py     what is made from what: the options of `deepnmt synthesise`, checked and recorded
    pair_making.py   ... and how: chunks of translations, the one closest to the reference (31), then a data folder
    decoding.py      lines of subwords to translations: beam search, greedy search, sampling
    noise.py         words left out, blanked and moved (29)
    pairs.py         translations to pairs: dropped pairs, noise, tags
    round_recipe.py  iterative back-translation and distillation: the recipes
    rounds.py        ... the next command, and the requirements before the first

`docs/synthetic.md` has the purpose. Only `decoding.py` imports fairseq.
"""
