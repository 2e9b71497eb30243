"""What the values of fairseq-train's options must be: a row an option, and rules between options.

Options of the model are checked where it is built (deepnmt/model/validate.py), for fairseq's own commands too.
"""

from __future__ import annotations

import ast
import contextlib
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from deepnmt.limits import BEAM
from deepnmt.literals import evaluated_fault

# The largest number that fairseq's tensors and counters take.
INT = 2**31 - 1
Fault = tuple[str, str]


class Rule(NamedTuple):
    """What a value must be, in words, and whether one is that."""

    words: str
    holds: Callable[[Any], bool]


def whole(low: int, high: int = INT) -> Rule:
    """Return the rule of a whole number in a range."""
    words = f"at least {low}" if high == INT else f"from {low} to {high}"
    return Rule(words if high != INT else f"{words} and at most {INT}", lambda n: low <= n <= high)


def number(low: float) -> Rule:
    """Return the rule of a finite number of at least `low`."""
    return Rule(f"a finite number of at least {low:g}", lambda x: low <= x < math.inf)


def each(rule: Rule) -> Rule:
    """Return the rule of a list whose numbers are all of a kind."""
    return Rule(f"numbers, each {rule.words}", lambda values: bool(values) and all(map(rule.holds, values)))


def betas(value: object) -> bool:
    """Return whether a value is Adam's pair, or the text of one."""
    try:
        value = ast.literal_eval(str(value))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        return False
    return all(type(part) in (int, float) and 0 <= part < 1 for part in value)


def beam_fits(arguments: object) -> bool:
    """Return whether the arguments of a search during validation are a JSON mapping with a beam of bearable size."""
    beam = json.loads(str(arguments or "{}")).get("beam", 1) if is_json_mapping(arguments) else 0
    return isinstance(beam, int) and 1 <= beam <= BEAM


def is_json_mapping(arguments: object) -> bool:
    """Return whether a text is a mapping in JSON; None is an empty one."""
    try:
        return arguments is None or isinstance(json.loads(str(arguments)), dict)
    except (ValueError, RecursionError):
        return False


def increasing(value: object) -> bool:
    """Return whether a list of whole numbers, or the text of one, starts above 0 and increases."""
    try:
        numbers = ast.literal_eval(str(value))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False
    numbers = list(numbers) if isinstance(numbers, (list, tuple)) else [numbers]
    return all(type(each) is int for each in numbers) and all(low < high for low, high in zip([0, *numbers], numbers))


POSITIVE = Rule("a finite number above 0", lambda x: 0 < x < math.inf)
SHARE = Rule("at least 0 and below 1", lambda x: 0 <= x < 1)
OFF_OR_MORE = Rule(f"-1 (off), or from 0 to {INT}", lambda n: -1 <= n <= INT)

RANGES: dict[str, Rule] = {
    # How long, and how large an update is. 0 stands for no bound.
    "max_update": whole(0),
    "cooldown_updates": whole(0),
    "validate_average": whole(1, 1000),
    "max_epoch": whole(0),
    "stop_time_hours": number(0),
    "patience": OFF_OR_MORE,
    "max_tokens": whole(1),
    "max_tokens_valid": whole(1),
    "batch_size": whole(1),
    "batch_size_valid": whole(1),
    "update_freq": each(whole(1)),
    "required_batch_size_multiple": whole(1),
    "required_seq_len_multiple": whole(1),
    "max_source_positions": whole(1, 1 << 20),
    "max_target_positions": whole(1, 1 << 20),
    "curriculum": whole(0),
    # Optimizer, schedule and loss
    "lr": each(POSITIVE),
    "clip_norm": number(0),
    "adam_betas": Rule("two numbers of at least 0 and below 1, such as (0.9, 0.98)", betas),
    "adam_eps": number(0),
    "weight_decay": number(0),
    "momentum": number(0),
    "label_smoothing": SHARE,
    "ignore_prefix_size": whole(0),
    "bpe_dropout": SHARE,
    "quant_noise_pq": Rule("at least 0 and at most 1", lambda x: 0 <= x <= 1),
    "adaptive_softmax_cutoff": Rule("whole numbers that increase, such as 10000,20000", increasing),
    "warmup_updates": whole(0),
    "warmup_init_lr": Rule("-1 (automatic), or a finite number of at least 0", lambda x: x == -1 or 0 <= x < math.inf),
    "fp16_init_scale": whole(1),
    "min_loss_scale": POSITIVE,
    # Saving, validating and logging
    "save_interval": whole(1),
    "save_interval_updates": whole(0),
    "validate_interval": whole(1),
    "validate_interval_updates": whole(0),
    "validate_after_updates": whole(0),
    "keep_interval_updates": OFF_OR_MORE,
    "keep_last_epochs": OFF_OR_MORE,
    "keep_best_checkpoints": OFF_OR_MORE,
    "max_valid_steps": whole(1),
    "log_interval": whole(1),
    "eval_bleu_args": Rule(f'JSON such as {{"beam": 4}}, with a beam from 1 to {BEAM}', beam_fits),
    "eval_bleu_detok_args": Rule('JSON such as {"target_lang": "de"}', is_json_mapping),
    # Processes, which each take memory
    "distributed_world_size": whole(1),
    "bucket_cap_mb": whole(1),
    "num_workers": whole(0, 1024),
    "data_buffer_size": whole(0, 1 << 20),
    "seed": whole(0, 2**32 - 1),
}
# They divide by the length of the warm-up.
WARMING = ("inverse_sqrt",)
TEXT_TASKS = ("translation", "deep_translation")
ENDS = ("max_update", "max_epoch", "patience", "stop_time_hours")
# Losses of fairseq's that are not of pairs of sentences and a Transformer's predictions.
OTHER_CRITERIONS = frozenset(
    (
        "ctc", "fastspeech2", "hubert", "label_smoothed_cross_entropy_with_ctc",
        "latency_augmented_label_smoothed_cross_entropy", "legacy_masked_lm_loss", "masked_lm", "model", "nat_loss",
        "sentence_prediction", "sentence_prediction_adapters", "sentence_ranking", "speech_dlm_criterion",
        "speech_to_spectrogram", "speech_to_spectrogram_2pass", "speech_to_unit", "speech_to_unit_2pass",
        "speech_unit_lm_criterion", "tacotron2", "wav2vec",
    )
)  # fmt: skip
# The loss of two-sided models.
TWO_SIDED = "label_smoothed_cross_entropy_two_sided"
# The search of this criterion reads whole weights.
RISK, SHARDED = "label_smoothed_cross_entropy_mrt", "fully_sharded"
HALF = ("fp16", "bf16", "amp", "memory_efficient_fp16", "memory_efficient_bf16")


def range_faults(values: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield each option that is out of its range: its name, and what it must be and is.

    Args:
        values: of all options, by fairseq's names
    """
    for name, rule in RANGES.items():
        value = values.get(name)
        if name.endswith("_valid") and value == values.get(name.removesuffix("_valid")):
            continue  # it follows the other
        # An interpolation stands for another option's value.
        if value is not None and not str(value).startswith("${") and not _holds(rule, value):
            shown = ",".join(map(str, value)) if isinstance(value, list) else value
            yield dashed(name), f"must be {rule.words}, but is {shown}"
    for name, value in values.items():
        if name not in RANGES and (fault := evaluated_fault(name, value)):
            yield dashed(name), fault


def _holds(rule: Rule, value: object) -> bool:
    # fairseq's command line leaves some numbers as text, such as those of --max-tokens-valid.
    with contextlib.suppress(ValueError):
        value = int(value) if isinstance(value, str) else value
    try:
        return rule.holds(value)
    except TypeError:
        return False


def rule_faults(values: Mapping[str, Any], written: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the options that do not go together.

    Args:
        values: of all options, by fairseq's names
        written: what stands in the recipe or on the command line, by the same names
    """
    schedule = values.get("lr_scheduler")
    if schedule in WARMING and values.get("warmup_updates") == 0:
        yield "warmup-updates", f"must be at least 1 with lr-scheduler {schedule}, but is 0"
    cooldown, last = values.get("cooldown_updates") or 0, values.get("max_update") or 0
    if cooldown > max(0, last):
        yield "cooldown-updates", f"must be at most max-update, {last}, but is {cooldown}"
    yield from _average_faults(values)
    if values.get("criterion") in OTHER_CRITERIONS and values.get("task") in TEXT_TASKS:
        yield "criterion", f"must be one for translation, such as cross_entropy, but is {values['criterion']}"
    cutoffs = values.get("adaptive_softmax_cutoff")
    # The others read it with this criterion alone, and have a default.
    reads = not str(values.get("arch")).startswith(("lstm", "fconv"))
    if reads and cutoffs and increasing(cutoffs) and values.get("criterion") not in (None, "adaptive_loss"):
        yield "criterion", f"must be adaptive_loss with adaptive-softmax-cutoff, but is {values['criterion']}"
    if values.get("task") == "translation_from_pretrained_bart" and "langs" in values and values["langs"] is None:
        yield "langs", "must be the languages of the pretrained model, such as en_XX,de_DE, but is not given"
    if values.get("criterion") == RISK and values.get("ddp_backend") == SHARDED:
        yield "ddp-backend", f"must not be {SHARDED} with criterion {RISK}, but is"
    if values.get("dataset_impl") == "fasta" and values.get("task") in TEXT_TASKS:
        yield "dataset-impl", "must be mmap, lazy, cached or raw for translation, but is fasta"
    if values.get("best_checkpoint_metric") == "bleu" and values.get("eval_bleu") is False:
        yield "best-checkpoint-metric", "must be a figure of the validation, but is bleu without eval-bleu"
    yield from _two_sided_faults(values)
    zero = [name for name in ("max_update", "max_epoch") if name in written and values.get(name) == 0]
    if zero and not any((values.get(name) or 0) > 0 for name in ENDS):
        others = ", ".join(dashed(name) for name in ENDS if name != zero[0])
        yield dashed(zero[0]), f"must be at least 1 where nothing else ends the training ({others}), but is 0"


def _two_sided_faults(values: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield what a two-sided model cannot be trained with."""
    chosen = values.get("criterion") == TWO_SIDED
    if chosen and not values.get("two_sided"):
        yield "two-sided", f"must be given with criterion {TWO_SIDED}, but is not"
    if values.get("two_sided") and not chosen:
        yield "criterion", f"must be {TWO_SIDED} with two-sided, but is {values.get('criterion')}"
    if values.get("two_sided") and values.get("ddp_backend") == "fully_sharded":
        # Greedy translations take a number of steps that differs from process to process.
        yield "ddp-backend", "must not be fully_sharded with two-sided, but is"


def _average_faults(values: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield what keeps --validate-average from its checkpoints."""
    number = values.get("validate_average") or 1
    if number < 2:
        return
    for name in ("no_save", "no_epoch_checkpoints"):
        if values.get(name):
            yield dashed(name), f"must not be set with validate-average {number}, which averages epochs' checkpoints"
    if values.get("checkpoint_suffix"):
        yield "checkpoint-suffix", f"must not be given with validate-average {number}, which knows checkpointN.pt alone"
    kept, patience = values.get("keep_last_epochs") or -1, max(0, values.get("patience") or 0)
    if 0 <= kept < number + patience:
        yield (
            "keep-last-epochs",
            f"must be at least {number + patience}, the sum of validate-average and patience, or -1 (all), so that the "
            f"best average can be made again, but is {kept}",
        )
    kept = values.get("keep_interval_updates") or -1
    pattern = values.get("keep_interval_updates_pattern") or -1
    if values.get("save_interval_updates") and pattern == -1 and 0 <= kept < number + patience:
        yield (
            "keep-interval-updates",
            f"must be at least {number + patience}, the sum of validate-average and patience, or -1 (all), so that "
            f"there is what is averaged, but is {kept}",
        )


def precision_faults(chosen: Collection[str]) -> Iterator[Fault]:
    """Yield a fault where a training has two precisions.

    Args:
        chosen: names of all options that are set
    """
    kinds = [name for name in map(dashed, HALF) if name in chosen]
    # --memory-efficient-fp16 is a kind of --fp16.
    if len({name.removeprefix("memory-efficient-") for name in kinds}) > 1:
        yield kinds[0], f"must be the only precision, but stands beside {' and '.join(kinds[1:])}"


def translate_fits(text: str) -> bool:
    """Return whether the options of a search leave it a beam of bearable size."""
    words = text.split()  # as the script splits them
    pairs = zip(words, [*words[1:], ""])
    beams = [follower if word == "--beam" else word[7:] for word, follower in pairs if word.split("=")[0] == "--beam"]
    return all(beam.isdecimal() and len(beam) < 9 and 1 <= int(beam) <= BEAM for beam in beams)


def dashed(name: str) -> str:
    """Return an option's name as users write it."""
    return name.replace("_", "-")
