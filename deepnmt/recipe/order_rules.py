"""Which options of the task `deep_translation` for order, weights and cuts of the training text go together."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deepnmt.options.dual_rules import CUTS
from deepnmt.options.option_table import Fault, dashed, option

# Difficulties of pairs that need no file.
RANKED = ("length", "rarity")
# fairseq's options that need a fixed cut of the text.
ONE_CUT = ("truncate_source", "num_batch_buckets", "load_alignments")
WEIGHTS = ("pair_weights", "set_weights")
# Criterions whose losses can be weighed.
SMOOTHED = "label_smoothed_cross_entropy"
WEIGHED = (
    "cross_entropy", "dual_supervised", SMOOTHED,
    *(f"{SMOOTHED}_{name}" for name in ("fused", "distillation", "lm", "r_drop", "simcut", "two_sided")),
)  # fmt: skip
# Options with the values that turn them off.
OFF: dict[str, Any] = {
    "competence": "none", "sample_share": 1.0, "batch_order": "length", **dict.fromkeys(CUTS, 0.0), "curriculum": 0,
    "skip_remainder_batch": False, "num_batch_buckets": 0, "truncate_source": False, "load_alignments": False,
}  # fmt: skip
# Options that act only beside one of the named options, with their defaults.
PARTS: dict[tuple[str, ...], dict[str, Any]] = {
    ("competence",): {
        "competence_updates": None, "competence_start": 0.01, "competence_every": None, "difficulty": "length",
    },
    ("sample_share",): {"sample_warmup": 2},
    CUTS: {"bpe_dropout_side": "both"},
}  # fmt: skip
# Options with those that exclude them. A curriculum's epochs have a fixed number of updates, in a shuffled order, and
# the losses of --sample-share are compared between passes over all pairs.
EXCLUDED = {
    "competence": ("curriculum", "skip_remainder_batch", "batch_order", "sample_share"),
    "batch_order": ("num_batch_buckets",),
    "unigram_sampling": ("bpe_dropout",),
    **dict.fromkeys(ONE_CUT, CUTS),
}
NAMES = (*OFF, *(name for parts in PARTS.values() for name in parts))


def order_faults(values: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the options that do not go together, by the values of all options under fairseq's names."""

    def differs(name: str, default: Any) -> bool:
        value = values.get(name)
        return value is not None and value != default and str(value) != str(default)

    chosen = {name for name, off in OFF.items() if differs(name, off)}
    for wholes, parts in PARTS.items():
        for name, default in parts.items():
            if differs(name, default) and chosen.isdisjoint(wholes):
                yield dashed(name), f"needs {' or '.join(map(option, wholes))}"
    if "competence" in chosen and values.get("competence_updates") is None:
        yield "competence-updates", "must be given with --competence, but is not"
    kind = str(values.get("difficulty"))
    if "competence" in chosen and kind not in RANKED and not Path(kind).is_file():
        yield "difficulty", f"must be {', '.join(RANKED)} or a file, but is '{kind}'"
    weights = [option(name) for name in WEIGHTS if values.get(name)]
    if weights and values.get("criterion") not in (None, *WEIGHED):
        yield "criterion", f"must be one of {', '.join(WEIGHED)} with {weights[0]}, but is {values['criterion']}"
    for name, others in EXCLUDED.items():
        for other in others:
            if {name, other} <= chosen:
                yield dashed(name), f"cannot be combined with {option(other)}"
