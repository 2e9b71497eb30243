"""Which options of fairseq-train go together; `deepnmt/options/option_table.py` has the range of each.

Options of the model are checked where it is built (deepnmt/model/validate.py), for fairseq's own commands too.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from deepnmt.limits import BEAM
from deepnmt.options.dual_rules import TASK, dual_faults, text_faults
from deepnmt.options.option_table import SEARCHES, Fault, dashed, is_increasing
from deepnmt.recipe.order_rules import order_faults

# They divide by the length of the warm-up.
WARMING = ("inverse_sqrt",)
TEXT_TASKS = ("translation", "deep_translation", "deep_dual")
# Of models that are not autoregressive.
ITERATIVE_TASK = "translation_lev"
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
# Pre-training, and the losses that know its batches.
MASKED, MASKED_LOSS = "deep_masked_lm", "masked_language_model"
MASS, MASS_LOSSES = "deep_mass", ("cross_entropy", "label_smoothed_cross_entropy", *(
    f"label_smoothed_cross_entropy_{name}" for name in ("fused", "r_drop", "simcut")
))  # fmt: skip
# Ends of the names of architectures with fairseq's decoders.
OTHER_DECODERS = ("_lstm", "_lightconv")
HALF = ("fp16", "bf16", "amp", "memory_efficient_fp16", "memory_efficient_bf16")


def rule_faults(values: Mapping[str, Any], written: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the options that do not go together.

    Args:
        values: values of all options, by fairseq's names
        written: values as written in the recipe or on the command line, by the same names
    """
    schedule = values.get("lr_scheduler")
    if schedule in WARMING and values.get("warmup_updates") == 0:
        yield "warmup-updates", f"must be at least 1 with lr-scheduler {schedule}, but is 0"
    cooldown, last = values.get("cooldown_updates") or 0, values.get("max_update") or 0
    if cooldown > max(0, last):
        yield "cooldown-updates", f"must be at most max-update, {last}, but is {cooldown}"
    yield from _average_faults(values)
    yield from order_faults(values)
    if values.get("criterion") in OTHER_CRITERIONS and values.get("task") in TEXT_TASKS:
        yield "criterion", f"must be one for translation, such as cross_entropy, but is {values['criterion']}"
    cutoffs = values.get("adaptive_softmax_cutoff")
    # The others read it with this criterion alone, and have a default.
    reads = not str(values.get("arch")).startswith(("lstm", "fconv"))
    if reads and cutoffs and is_increasing(cutoffs) and values.get("criterion") not in (None, "adaptive_loss"):
        yield "criterion", f"must be adaptive_loss with adaptive-softmax-cutoff, but is {values['criterion']}"
    if values.get("task") == "translation_from_pretrained_bart" and "langs" in values and values["langs"] is None:
        yield "langs", "must be the languages of the pretrained model, such as en_XX,de_DE, but is not given"
    if values.get("criterion") == RISK and values.get("ddp_backend") == SHARDED:
        yield "ddp-backend", f"must not be {SHARDED} with criterion {RISK}, but is"
    if values.get("dataset_impl") == "fasta" and values.get("task") in TEXT_TASKS:
        yield "dataset-impl", "must be mmap, lazy, cached or raw for translation, but is fasta"
    if values.get("best_checkpoint_metric") == "bleu" and values.get("eval_bleu") is False:
        yield "best-checkpoint-metric", "must be a figure of the validation, but is bleu without eval-bleu"
    if values.get("task") == ITERATIVE_TASK and values.get("eval_bleu"):
        yield "eval-bleu", f"must not be set with task {ITERATIVE_TASK}, whose validation does not translate"
    yield from _two_sided_faults(values)
    yield from dual_faults(values)
    yield from text_faults(values)
    yield from _pretraining_faults(values)
    yield from _search_faults(values)
    zero = [name for name in ("max_update", "max_epoch") if name in written and values.get(name) == 0]
    if zero and not any((values.get(name) or 0) > 0 for name in ENDS):
        others = ", ".join(dashed(name) for name in ENDS if name != zero[0])
        yield dashed(zero[0]), f"must be at least 1 where nothing else ends the training ({others}), but is 0"


def _two_sided_faults(values: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the options that a two-sided model cannot be combined with in training."""
    chosen = values.get("criterion") == TWO_SIDED
    if chosen and not values.get("two_sided"):
        yield "two-sided", f"must be given with criterion {TWO_SIDED}, but is not"
    if values.get("two_sided") and not chosen:
        yield "criterion", f"must be {TWO_SIDED} with two-sided, but is {values.get('criterion')}"
    if values.get("two_sided") and values.get("ddp_backend") == "fully_sharded":
        # Greedy translations take a number of steps that differs from process to process.
        yield "ddp-backend", "must not be fully_sharded with two-sided, but is"


def _pretraining_faults(values: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the options that a pre-training cannot be combined with."""
    task, criterion, arch = (values.get(name) for name in ("task", "criterion", "arch"))
    if (task == MASKED) != (criterion == MASKED_LOSS):
        if task == MASKED:
            yield "criterion", f"must be {MASKED_LOSS} with task {MASKED}, but is {criterion}"
        else:
            yield "task", f"must be {MASKED} with criterion {MASKED_LOSS}, but is {task}"
    if task == MASKED and values.get("sentence_avg"):
        yield "sentence-avg", f"cannot be combined with task {MASKED}, whose loss is a mean over masked tokens"
    if task == MASS and criterion not in MASS_LOSSES:
        yield "criterion", f"must be one of {', '.join(MASS_LOSSES)} with task {MASS}, but is {criterion}"
    if task in (MASKED, MASS) and values.get("encoder_embedding_cutoffs", "none") != "none":
        yield "encoder-embedding-cutoffs", f"must be none with task {task}, which adds types to the dictionary"
    own = str(arch).startswith("dlcl_transformer") and not str(arch).endswith(OTHER_DECODERS)
    if task in (MASKED, MASS) and not own:
        yield "arch", f"must be dlcl_transformer or one of its named sizes with task {task}, but is {arch}"


def _search_faults(values: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the options of a search in a training that does not search, or that samples."""
    samples = values.get("task") == TASK and values.get("lambda_dual")
    searches = values.get("criterion") == RISK or values.get("task") == TASK or values.get("eval_bleu")
    if values.get("task") not in TEXT_TASKS or (searches and not samples):
        return
    rest = "needs eval-bleu, since this training does not search otherwise"
    rest = "cannot be combined with lambda-dual, which samples" if samples else rest
    for name, default in {"nbest_file": None, **{name: row.default for name, row in SEARCHES.items()}}.items():
        if str(values.get(name, default)) != str(default):
            yield dashed(name), rest


def _average_faults(values: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the options that keep --validate-average from its checkpoints."""
    number = values.get("validate_average") or 1
    if number < 2:
        return
    for name in ("no_save", "no_epoch_checkpoints"):
        if values.get(name):
            yield dashed(name), f"must not be set with validate-average {number}, which averages epochs' checkpoints"
    if values.get("checkpoint_suffix"):
        yield "checkpoint-suffix", f"must not be given with validate-average {number}, which knows checkpointN.pt alone"
    kept, patience = values.get("keep_last_epochs") or -1, max(0, values.get("patience") or 0)
    least = f"at least {number + patience}, the sum of validate-average and patience, or -1 (all)"
    if 0 <= kept < number + patience:
        yield "keep-last-epochs", f"must be {least}, so that the best average can be made again, but is {kept}"
    kept = values.get("keep_interval_updates") or -1
    pattern = values.get("keep_interval_updates_pattern") or -1
    if values.get("save_interval_updates") and pattern == -1 and 0 <= kept < number + patience:
        yield "keep-interval-updates", f"must be {least}, so that there is what is averaged, but is {kept}"


def precision_faults(chosen: Collection[str]) -> Iterator[Fault]:
    """Yield a fault where a training has two precisions among the names of all options that are set."""
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
