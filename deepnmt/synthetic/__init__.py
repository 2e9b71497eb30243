"""More pairs than there are: from monolingual text by translating it, and from a teacher's translations.

    job.py           what is made from what: the options of `scripts/synthesise.sh`, checked and recorded
    chunks.py        the part of the work that is lost when a process is killed, and the parts of several machines
    decoding.py      lines of subwords to translations: beam search, greedy search, sampling
    closest.py       the one of several translations that is closest to the reference (31)
    noise.py         words left out, blanked and moved (29)
    pairs.py         translations to pairs: what is dropped, noise, tags
    round_recipe.py  iterative back-translation and distillation: the recipes
    rounds.py        ... and which command comes next

`scripts/binarise.sh`, `synthesise.sh`, `mix.sh` and `iterate.sh` run it; `docs/synthetic.md` says what for. Only
`decoding.py` imports fairseq.
"""
