"""The options of models, trainings and searches: a row each, with all facts about an option beside its help.

fairseq's dataclasses and this package's hold names, types, defaults and help texts of models and trainings. `SEARCHES`
declares the options of this package's search completely, without importing fairseq.

A row has a role, which says who checks values against its rule:

    TRAINING   any training, whatever its architecture, and every reader of recipes
    MODEL      every builder of a Transformer, fairseq's or this package's
    SEARCH     any search
    EXPORT     an export

Rules between options stand where both are known: `recipe/combinations.py`, `model/validate.py`, `search/options.py`.
"""

import contextlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional, Union

from deepnmt.limits import BEAM, LENPEN
from deepnmt.literals import evaluated_fault, literal

# The largest number that fairseq's tensors and counters hold.
INT = 2**31 - 1
TRAINING, MODEL, SEARCH, EXPORT = "training", "model", "search", "export"
STACKS = ("encoder", "decoder")
# --float32-matmul-precision, in torch's own words.
MATMUL_PRECISIONS = ("highest", "high", "medium")
MATMUL_HELP = (
    "rounding of factors in training's float32 products: high and medium as in torch on a GPU (TF32), "
    "medium to bfloat16 on a CPU with AMX or AVX-512 BF16"
)
Fault = tuple[str, str]


class Rule(NamedTuple):
    """The requirement on a value, in words and as a function."""

    words: str
    holds: Callable[[Any], bool]


def whole(low: int, high: int = INT) -> Rule:
    """Return the rule of a whole number in a range."""
    words = f"at least {low} and at most {INT}" if high == INT else f"from {low} to {high}"
    return Rule(words, lambda n: low <= n <= high)


def number(low: float) -> Rule:
    """Return the rule of a finite number of at least `low`."""
    return Rule(f"a finite number of at least {low:g}", lambda x: low <= x < math.inf)


def each(rule: Rule) -> Rule:
    """Return the rule of a list whose numbers are all of a kind."""
    return Rule(f"numbers, each {rule.words}", lambda values: bool(values) and all(map(rule.holds, values)))


def is_betas(value: object) -> bool:
    """Return whether a value is Adam's pair, or the text of one."""
    pair = literal(value)
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        return False
    return all(type(part) in (int, float) and 0 <= part < 1 for part in pair)


def beam_fits(arguments: object) -> bool:
    """Return whether the arguments of a search during validation are a JSON mapping with a beam of acceptable size."""
    beam = json.loads(str(arguments or "{}")).get("beam", 1) if is_json_mapping(arguments) else 0
    return isinstance(beam, int) and 1 <= beam <= BEAM


def is_json_mapping(arguments: object) -> bool:
    """Return whether a text is a mapping in JSON; None is an empty one."""
    try:
        return arguments is None or isinstance(json.loads(str(arguments)), dict)
    except (ValueError, RecursionError):
        return False


def is_increasing(value: object) -> bool:
    """Return whether a list of whole numbers, or the text of one, starts above 0 and increases."""
    numbers = literal(value)
    numbers = list(numbers) if isinstance(numbers, (list, tuple)) else [numbers]
    return all(type(each) is int for each in numbers) and all(low < high for low, high in zip([0, *numbers], numbers))


def are_weights(text: object) -> bool:
    """Return whether a text has finite numbers of at least 0 between commas, not all of them 0."""
    with contextlib.suppress(ValueError):
        values = list(map(float, str(text).split(",")))
        return all(0 <= value < math.inf for value in values) and any(values)
    return False


# Far beyond any trained model; a typing error would otherwise fill the memory before its cause is visible.
LAYERS, CHANNELS, POSITIONS = whole(1, 10_000), whole(1, 1 << 20), whole(1, 1 << 20)
POSITIVE = Rule("a finite number above 0", lambda x: 0 < x < math.inf)
FINITE = Rule("a finite number", math.isfinite)
SHARE = Rule("at least 0 and below 1", lambda x: 0 <= x < 1)
PROPER_SHARE = Rule("above 0 and below 1", lambda x: 0 < x < 1)
FRACTION = Rule("at least 0 and at most 1", lambda x: 0 <= x <= 1)
POSITIVE_SHARE = Rule("above 0 and at most 1", lambda x: 0 < x <= 1)
OFF_OR_MORE = Rule(f"-1 (off), or from 0 to {INT}", lambda n: -1 <= n <= INT)
BETAS = Rule("two numbers of at least 0 and below 1, such as (0.9, 0.98)", is_betas)
INCREASING = Rule("whole numbers that increase, such as 10000,20000", is_increasing)
BEAM_ARGUMENTS = Rule(f'JSON such as {{"beam": 4}}, with a beam from 1 to {BEAM}', beam_fits)
WEIGHTS = Rule("finite numbers of at least 0, one of them above 0, such as 1,0.5", are_weights)
JSON_MAPPING = Rule('JSON such as {"target_lang": "de"}', is_json_mapping)


def holds(rule: Rule, value: object) -> bool:
    """Return whether a value is right; fairseq's command line leaves some numbers as text."""
    with contextlib.suppress(ValueError):
        value = int(value) if isinstance(value, str) else value
    try:
        return rule.holds(value)
    except TypeError:
        return False


@dataclass(frozen=True)
class Row:
    """The facts about an option.

    Attributes:
        role: see above
        rule: of its value; None: any value of its type
        inference: whether it may change a trained model's computations, so that an engine must know it
        part_of: option without which it has no effect
        default: its value if it is not given; this and the other fields below are for `SEARCHES` alone
        help: of the command line
        kind: type of a value
        choices: all values, if they are few
        metavar: name of the value on the command line; empty for a flag
    """

    role: str
    rule: Optional[Rule] = None
    inference: bool = True
    part_of: str = ""
    default: Union[str, float, bool, None] = None
    help: str = ""
    kind: type = float
    choices: tuple[str, ...] = ()
    metavar: str = ""


def _is_layer(value: object) -> bool:
    return value in ("last", "mean") or (str(value).isdecimal() and int(str(value)) > 0)


def _is_bands(value: object) -> bool:
    return value == "none" or is_increasing(value)


def _are_different(value: object) -> bool:
    names = str(value).split(",")
    return all(names) and len(set(names)) == len(names)


# Options of this package's search, in the order of its help.
SEARCHES: dict[str, Row] = {
    "length_penalty": Row(
        SEARCH, default="power", choices=("power", "gnmt", "log"), metavar="power|gnmt|log",
        help="divisor of scores, for length n and a = --lenpen: n^a, ((5+n)/6)^a, or a log n",
    ),
    "min_len_ratio": Row(
        SEARCH, number(0), metavar="R", help="shortest translation, as a multiple of each sentence's source length"
    ),
    "max_len_ratio": Row(
        SEARCH, POSITIVE, metavar="R", help="longest translation, as a multiple of each sentence's source length"
    ),
    "coverage": Row(
        SEARCH, default="none", choices=("none", "gnmt", "floor"), metavar="none|gnmt|floor",
        help="penalty on source words that get little attention",
    ),
    "coverage_weight": Row(
        SEARCH, number(0), metavar="W", help="weight of the coverage penalty (required with --coverage)"
    ),
    "coverage_floor": Row(
        SEARCH, POSITIVE_SHARE, metavar="B",
        help="least attention of a word that counts (required with --coverage floor)",
    ),
    "coverage_layer": Row(
        SEARCH, Rule("last, mean, or a number from 1", _is_layer), default="last", kind=str, metavar="last|mean|N",
        help="decoder layers whose attention counts: last, mean, or a number from 1",
    ),
    "coverage_in_beam": Row(
        SEARCH, default=False, kind=bool, help="compare unfinished hypotheses by the coverage penalty, too"
    ),
    "beam_stop": Row(
        SEARCH, default="all", choices=("all", "first", "optimal"), metavar="all|first|optimal",
        help="end of the search: beam finished (all), best candidate of a step finished (first), or no continuation "
        "scores better than the best finished hypothesis (optimal)",
    ),
    "prune_gap": Row(
        SEARCH, Rule("at least 0", lambda gap: gap >= 0), metavar="D",
        help="largest distance of a hypothesis's score from the best finished one; others are dropped",
    ),
    "ensemble_rule": Row(
        SEARCH, default="linear", choices=("linear", "log-linear"), metavar="linear|log-linear",
        help="average of probabilities (linear) or of log-probabilities (log-linear)",
    ),
    "ensemble_weights": Row(
        SEARCH, kind=str, metavar="G1,G2", help="weights of the models, such as 0.5,0.3,0.2; equal by default"
    ),
    "datastore": Row(
        SEARCH, kind=str, metavar="FOLDER",
        help="kNN datastores, one per model, colon-separated (see deepnmt datastore)",
    ),
    "neighbours": Row(
        SEARCH, whole(1), default=16, kind=int, metavar="K", help="nearest entries of a datastore that are mixed in"
    ),
    "neighbour_weight": Row(SEARCH, SHARE, default=0.3, metavar="L", help="share of the neighbours in the probability"),
    "neighbour_temperature": Row(
        SEARCH, POSITIVE, default=10.0, metavar="T",
        help="divisor of squared distances; small values favour the nearest",
    ),
}  # fmt: skip

# For a model, with any value; fairseq's Transformers have the last three and never read them.
TRAINING_ALONE = (
    *("dlcl_init", "dlcl_freeze", "fast_dropout", "initializer", "checkpoint_activations", "offload_activations"),
    *("min_params_to_wrap", "quant_noise_pq_block_size", "adaptive_input", "char_inputs", "export"),
    "freeze_embeddings",
)
OF_SELF_ATTENTION = ("average_attention_ffn", "shared_attention_blocks", "shared_cross_attention")
ADAPTIVE_SOFTMAX = ("adaptive_softmax_factor", "tie_adaptive_weights", "tie_adaptive_proj")

OPTIONS: dict[str, Row] = {
    # Length of the training, and size of an update. 0 means unlimited.
    "max_update": Row(TRAINING, whole(0)),
    "cooldown_updates": Row(TRAINING, whole(0)),
    "validate_average": Row(TRAINING, whole(1, 1000)),
    "max_epoch": Row(TRAINING, whole(0)),
    "stop_time_hours": Row(TRAINING, number(0)),
    "patience": Row(TRAINING, OFF_OR_MORE),
    "max_tokens": Row(TRAINING, whole(1)),
    "max_tokens_valid": Row(TRAINING, whole(1)),
    "batch_size": Row(TRAINING, whole(1)),
    "batch_size_valid": Row(TRAINING, whole(1)),
    "update_freq": Row(TRAINING, each(whole(1))),
    "required_batch_size_multiple": Row(TRAINING, whole(1)),
    "required_seq_len_multiple": Row(TRAINING, whole(1)),
    "max_source_positions": Row(TRAINING, POSITIONS),
    "max_target_positions": Row(TRAINING, POSITIONS),
    "curriculum": Row(TRAINING, whole(0)),
    # Optimizer, schedule and loss
    "lr": Row(TRAINING, each(POSITIVE)),
    "clip_norm": Row(TRAINING, number(0)),
    "adam_betas": Row(TRAINING, BETAS),
    "adam_eps": Row(TRAINING, number(0)),
    "weight_decay": Row(TRAINING, number(0)),
    "momentum": Row(TRAINING, number(0)),
    "label_smoothing": Row(TRAINING, SHARE),
    "ignore_prefix_size": Row(TRAINING, whole(0)),
    "bpe_dropout": Row(TRAINING, SHARE),
    "unigram_sampling": Row(TRAINING, number(0)),
    "set_weights": Row(TRAINING, WEIGHTS),
    "sample_share": Row(TRAINING, POSITIVE_SHARE),
    "sample_warmup": Row(TRAINING, whole(2)),
    "l1": Row(TRAINING, number(0)),
    "l2": Row(TRAINING, number(0)),
    "competence_updates": Row(TRAINING, whole(1)),
    "competence_start": Row(TRAINING, PROPER_SHARE),
    "competence_every": Row(TRAINING, whole(1)),
    "mass_share": Row(TRAINING, POSITIVE_SHARE),
    "mass_langs": Row(TRAINING, Rule("different languages, such as en,de", _are_different)),
    "lm_loss_weight": Row(TRAINING, number(0)),
    "dual_weight": Row(TRAINING, number(0)),
    "lambda_otf": Row(TRAINING, number(0)),
    "lambda_dual": Row(TRAINING, number(0)),
    "dual_samples": Row(TRAINING, whole(2, BEAM)),
    "dual_lm_share": Row(TRAINING, FRACTION),
    "quant_noise_pq": Row(TRAINING, FRACTION),
    "adaptive_softmax_cutoff": Row(TRAINING, INCREASING),
    "warmup_updates": Row(TRAINING, whole(0)),
    "warmup_init_lr": Row(
        TRAINING, Rule("-1 (automatic), or a finite number of at least 0", lambda x: x == -1 or number(0).holds(x))
    ),
    "fp16_init_scale": Row(TRAINING, whole(1)),
    "min_loss_scale": Row(TRAINING, POSITIVE),
    # Saving, validating and logging
    "save_interval": Row(TRAINING, whole(1)),
    "save_interval_updates": Row(TRAINING, whole(0)),
    "validate_interval": Row(TRAINING, whole(1)),
    "validate_interval_updates": Row(TRAINING, whole(0)),
    "validate_after_updates": Row(TRAINING, whole(0)),
    "keep_interval_updates": Row(TRAINING, OFF_OR_MORE),
    "keep_last_epochs": Row(TRAINING, OFF_OR_MORE),
    "keep_best_checkpoints": Row(TRAINING, OFF_OR_MORE),
    "max_valid_steps": Row(TRAINING, whole(1)),
    "log_interval": Row(TRAINING, whole(1)),
    "eval_bleu_args": Row(TRAINING, BEAM_ARGUMENTS),
    "eval_bleu_detok_args": Row(TRAINING, JSON_MAPPING),
    # Processes; each one takes memory
    "distributed_world_size": Row(TRAINING, whole(1)),
    "bucket_cap_mb": Row(TRAINING, whole(1)),
    "num_workers": Row(TRAINING, whole(0, 1024)),
    "data_buffer_size": Row(TRAINING, whole(0, 1 << 20)),
    "seed": Row(TRAINING, whole(0, 2**32 - 1)),
    # The model
    **{f"{stack}_layers": Row(MODEL, LAYERS) for stack in STACKS},
    **{f"{stack}_embed_dim": Row(MODEL, CHANNELS) for stack in STACKS},
    **{f"{stack}_ffn_embed_dim": Row(MODEL, CHANNELS) for stack in STACKS},
    **{f"{stack}_attention_heads": Row(MODEL, whole(1)) for stack in STACKS},
    **{f"{stack}_max_relative_length": Row(MODEL, whole(0)) for stack in STACKS},
    **{f"{stack}_skip": Row(MODEL, SHARE) for stack in STACKS},
    "decoder_lm_layers": Row(MODEL, whole(0)),
    "fused_drop": Row(MODEL, FRACTION, inference=False),
    "encoder_embedding_cutoffs": Row(MODEL, Rule(f"none, or {INCREASING.words}", _is_bands)),
    "embedding_factor": Row(MODEL, whole(1), part_of="encoder_embedding_cutoffs"),
    "decoder_input_dim": Row(MODEL, CHANNELS),
    "decoder_output_dim": Row(MODEL, CHANNELS),
    "dlcl_window": Row(MODEL, whole(0), part_of="encoder_groups"),
    **{name: Row(MODEL, part_of="decoder_self_attention") for name in OF_SELF_ATTENTION},
    **{f"dlcl_{name}": Row(MODEL, part_of="encoder_groups") for name in ("granularity", "softmax", "embedding_norm")},
    # The model in training: its initialisation, regularisation and storage
    **{f"{stack}_word_dropout": Row(MODEL, SHARE, inference=False) for stack in STACKS},
    **{f"{stack}_layerdrop": Row(MODEL, SHARE, inference=False) for stack in STACKS},
    **{f"{stack}_embed_path": Row(MODEL, inference=False) for stack in STACKS},
    # A checkpoint has the tensors of each place.
    **{f"{stack}_share_layers": Row(MODEL, inference=False) for stack in STACKS},
    **{f"{stack}_freeze": Row(MODEL, inference=False) for stack in STACKS},
    "dropout": Row(MODEL, SHARE, inference=False),
    **{f"{name}_dropout": Row(MODEL, SHARE, inference=False) for name in ("attention", "activation", "relu", "dlcl")},
    "ds_init_alpha": Row(MODEL, POSITIVE_SHARE, inference=False),
    "adaptive_softmax_dropout": Row(MODEL, SHARE, part_of="adaptive_softmax_cutoff"),
    **{name: Row(MODEL, inference=False) for name in TRAINING_ALONE},
    **{name: Row(MODEL, part_of="adaptive_softmax_cutoff") for name in ADAPTIVE_SOFTMAX},
    **{name: Row(MODEL, part_of="base_layers") for name in ("base_sublayers", "base_shuffle")},
    # fairseq's own options of a search
    "beam": Row(SEARCH, whole(1, BEAM)),
    "nbest": Row(SEARCH, whole(1, BEAM)),
    "lenpen": Row(SEARCH, Rule(f"from {-LENPEN} to {LENPEN}", lambda x: -LENPEN <= x <= LENPEN)),
    "unkpen": Row(SEARCH, FINITE),
    "max_len_a": Row(SEARCH, number(0)),
    "max_len_b": Row(SEARCH, whole(0)),
    "temperature": Row(SEARCH, POSITIVE),
    "diverse_beam_strength": Row(SEARCH, FINITE),
    "sampling_topk": Row(SEARCH, Rule("at least 1, or -1 for all types", lambda n: n >= 1 or n == -1)),
    "sampling_topp": Row(SEARCH, Rule("above 0 and at most 1, or -1 for all types", lambda x: 0 < x <= 1 or x == -1)),
    **SEARCHES,
    # deepnmt export's
    "check": Row(EXPORT, whole(0)),
    "shortlist": Row(EXPORT, whole(1)),
}


def range_faults(values: Mapping[str, Any], *roles: str) -> Iterator[Fault]:
    """Yield each option of some roles that is out of range: its name for users, its required and actual value."""
    for name, row in OPTIONS.items():
        value = values.get(name)
        if row.role not in roles or row.rule is None:
            continue
        if name.endswith("_valid") and value == values.get(name.removesuffix("_valid")):
            continue  # it follows the other
        # An interpolation represents another option's value.
        if value not in (None, "") and not str(value).startswith("${") and not holds(row.rule, value):
            shown = ",".join(map(str, value)) if isinstance(value, list) else value
            yield dashed(name), f"must be {row.rule.words}, but is {shown}"


def literal_faults(values: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield each option without a rule whose text fairseq would evaluate, but cannot."""
    for name, value in values.items():
        if (name not in OPTIONS or OPTIONS[name].rule is None) and (fault := evaluated_fault(name, value)):
            yield dashed(name), fault


def option(name: str) -> str:
    """Return an option as written on a command line."""
    return f"--{dashed(name)}"


def described(default: Any, text: str) -> Any:
    """Return a field of a dataclass of fairseq's, with its default and help text."""
    return field(default=default, metadata={"help": text})


def dashed(name: str) -> str:
    """Return an option's name as users write it."""
    return name.replace("_", "-")
