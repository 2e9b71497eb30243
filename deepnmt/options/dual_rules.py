"""Which options go together with a model of both directions, and with text of one language beside the pairs."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deepnmt.options.option_table import Fault, dashed

ARCH, CRITERION, TASK = "dlcl_dual", "dual_supervised", "deep_dual"
UNSPLIT = "a model of both directions cannot translate; deepnmt split writes a checkpoint of each direction"
# The loss of a language model in the decoder.
LANGUAGE_MODEL = "label_smoothed_cross_entropy_lm"
# Features of both models are projected by one matrix each, and neither model searches in its forward pass.
OF_MODELS = (
    *("two_sided", "adaptive_softmax_cutoff", "base_layers", "encoder_layers_to_keep", "decoder_layers_to_keep"),
    # The frozen encoder is of one language.
    "fused_encoder",
)
# Options by which the text is cut anew in each epoch.
CUTS = ("bpe_dropout", "unigram_sampling")
# Options of the task, which a model of one direction lacks.
OF_TASK = ("mono", "lambda_otf", "lambda_dual", "dual_samples", "dual_lm_share", "source_lm", "target_lm")
# Options without an effect where another one, with its default, is 0; and their defaults.
PARTS: tuple[tuple[str, float, dict[str, Any]], ...] = (
    ("lambda_dual", 0.0, {"dual_samples": 2, "dual_lm_share": 0.01, "source_lm": None, "target_lm": None}),
    ("dual_lm_share", 0.01, {"source_lm": None, "target_lm": None}),
    ("dual_weight", 0.0, {"marginals": None}),
)
# Files that a training reads before its first update.
FILES = ("marginals", "source_lm", "target_lm", "pair_weights", "encoder_embed_path", "decoder_embed_path")
# BLEU needs one model; the others belong to one direction.
OF_TRAININGS = ("eval_bleu", "right_to_left", "load_alignments", "truncate_source", "ignore_prefix_size")


def model_faults(values: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the options of the model, by name, that two directions exclude."""
    for name in OF_MODELS:
        if values.get(name):
            yield dashed(name), f"cannot be combined with arch {ARCH}"
    if (frozen := str(values.get("freeze_embeddings", "none"))) in ("source", "target"):
        yield "freeze-embeddings", f"must be none or both with arch {ARCH}, but is {frozen}"


def dual_faults(values: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the faults of a training's options, by name."""
    arch, criterion, task = (values.get(name) for name in ("arch", "criterion", "task"))
    if arch != ARCH:
        for name, value in (("criterion", criterion), ("task", task)):
            if value in (CRITERION, TASK):
                yield "arch", f"must be {ARCH} with {name} {value}, but is {arch}"
        return
    if task == TASK and not (values.get("lambda_otf") or values.get("lambda_dual")):
        yield "lambda-otf", f"or lambda-dual must be above 0 with task {TASK}, but both are 0"
    for whole, own, parts in PARTS:
        for name, default in parts.items():
            if values.get(name, default) != default and not values.get(whole, own):
                yield dashed(name), f"needs {dashed(whole)}, but it is 0"
    if criterion != CRITERION:
        yield "criterion", f"must be {CRITERION} with arch {ARCH}, but is {criterion}"
    yield from model_faults(values)
    for name in OF_TRAININGS:
        if values.get(name):
            yield dashed(name), f"cannot be combined with arch {ARCH}"
    if values.get("sample_share") not in (None, 1):
        yield "sample-share", f"cannot be combined with arch {ARCH}"
    if values.get("marginals"):
        # They are of one cut of the text, and of each pair once.
        for name in CUTS:
            if values.get(name):
                yield dashed(name), "cannot be combined with marginals"
        if (copies := values.get("upsample_primary")) not in (None, -1, 1):
            yield "upsample-primary", f"must be 1 with marginals, but is {copies}"


def text_faults(values: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the faults of text of one language beside the pairs, which a loss or a task must read."""
    reads = values.get("criterion") == LANGUAGE_MODEL
    if reads and not values.get("decoder_lm_layers"):
        yield "decoder-lm-layers", f"must be at least 1 with criterion {LANGUAGE_MODEL}, but is 0"
    if values.get("mono") and not (reads and values.get("lm_loss_weight")) and values.get("task") != TASK:
        yield "criterion", f"must be {LANGUAGE_MODEL}, with an lm-loss-weight above 0, to read mono"
    if values.get("mono") and values.get("right_to_left"):
        yield "right-to-left", "cannot be combined with mono"


def untrained(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each part of a model that only begins to learn, where its method needs a trained one."""
    starts = [name for name in ("fwd_from", "bwd_from") if not values.get(name)]
    if values.get("task") == TASK and starts and not values.get("finetune_from_model"):
        named = " and ".join(f"--{dashed(name)}" for name in starts)
        yield f"{named} not given: untrained models write the first translations of --mono's text"
    if values.get("decoder_lm_layers") and values.get("criterion") != LANGUAGE_MODEL:
        yield f"--decoder-lm-layers without --criterion {LANGUAGE_MODEL}: these layers are no language model"


def missing(values: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the files that a training lacks, or does not find; recipes leave them to the command line."""
    for name in FILES:
        if (path := values.get(name)) and not Path(path).is_file():
            yield f"{dashed(name)}:", f"no such file '{path}'"
    for folder in (values.get("mono") or "").split(":"):
        if folder and not Path(folder).is_dir():
            yield "mono:", f"data folder '{folder}' not found"
    if values.get("criterion") == CRITERION and values.get("dual_weight") and not values.get("marginals"):
        yield "marginals", f"must be given with dual-weight {values['dual_weight']}, but is not"
    reads = values.get("criterion") == LANGUAGE_MODEL and values.get("lm_loss_weight")
    if not values.get("mono") and (reads or values.get("task") == TASK):
        yield "mono", f"must be given with {f'criterion {LANGUAGE_MODEL}' if reads else f'task {TASK}'}, but is not"
