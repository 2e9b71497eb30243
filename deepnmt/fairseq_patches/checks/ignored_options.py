"""Options that one of fairseq's commands accepts and then ignores, or fails at, are refused in one line.

All of fairseq's commands share most of their options. An option of training does no harm in a search (`docs/fairseq.md`
says where each acts). The options here belong to searching and scoring, and a user expects an effect.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from typing import Any

from fairseq import options

from deepnmt.errors import UserError
from deepnmt.fairseq_patches.patch import replaces
from deepnmt.options.option_table import dashed
from deepnmt.recipe.combinations import TEXT_TASKS

GENERATE, INTERACTIVE, VALIDATE, EVAL_LM = (
    "fairseq-generate",
    "fairseq-interactive",
    "fairseq-validate",
    "fairseq-eval-lm",
)
# An option that only this command's parser has; in this order, as fairseq-interactive has fairseq-generate's, too.
MARKS = {INTERACTIVE: "buffer_size", GENERATE: "beam", EVAL_LM: "softmax_batch"}

SEARCHES = (GENERATE, INTERACTIVE)
EVALUATIONS = (GENERATE, INTERACTIVE, VALIDATE, EVAL_LM)
PRECISION = "computes in FP32, or with --fp16 in FP16"
SHARDS = "shares its sentences out by --distributed-world-size and --distributed-rank"
NO_REFERENCE = "has no reference translations"
NO_SEED = "--no-seed-provided"
FIRST_PASS = "has no first-pass decoder"
# Options that another task than translating text may read.
OF_OTHER_TASKS = ("eos_token", "beam_mt", "max_len_a_mt", "max_len_b_mt", "lenpen_mt")
# Option, commands, and their actual behaviour.
IGNORED: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("bf16", EVALUATIONS, PRECISION),
    ("memory_efficient_bf16", EVALUATIONS, PRECISION),
    ("amp", EVALUATIONS, PRECISION),
    ("num_shards", (GENERATE,), SHARDS),
    ("num_shards", (INTERACTIVE, VALIDATE), "takes all sentences"),
    ("eos_token", SEARCHES, "ends translations with the dictionary's symbol"),
    *((name, SEARCHES, FIRST_PASS) for name in ("beam_mt", "max_len_a_mt", "max_len_b_mt", "lenpen_mt")),
    ("sacrebleu", (INTERACTIVE,), NO_REFERENCE),
    ("scoring", (INTERACTIVE,), NO_REFERENCE),
    ("score_reference", (INTERACTIVE,), NO_REFERENCE),
    ("prefix_size", (INTERACTIVE,), NO_REFERENCE),
    ("results_path", (INTERACTIVE, VALIDATE, EVAL_LM), "writes to standard output"),
    ("quiet", (INTERACTIVE, VALIDATE, EVAL_LM), "prints its results"),
    (
        "replace_unk",
        (INTERACTIVE,),
        "does not keep the unknown words of its input: use fairseq-generate --dataset-impl raw",
    ),
)


@replaces(options, "parse_args_and_arch", order=20, why="options that a command would ignore are refused")
def refuse_ignored(stock: Any, parser: ArgumentParser, *args: Any, **kwargs: Any) -> Any:
    """Parse a command line; --sacrebleu, which fairseq-generate has forgotten, is --scoring sacrebleu there.

    Nor does --no-seed-provided have an effect: fairseq sets it anew by whether --seed has a value, which it always has.

    Raises:
        UserError: with a line for each option that its command would ignore
    """
    parsed = stock(parser, *args, **kwargs)
    values = parsed[0] if isinstance(parsed, tuple) else parsed
    if faults := list(_faults(parser, values)):
        raise UserError(*faults)
    if _command(values) == GENERATE and values.sacrebleu and values.scoring == "bleu":
        values.scoring = "sacrebleu"
    if NO_SEED in _words(*args, **kwargs):
        values.no_seed_provided = True
    return parsed


def _words(input_args: Sequence[str] | None = None, *_: Any, **__: Any) -> Sequence[str]:
    """Return the words of a command line that `options.parse_args_and_arch` is given."""
    return sys.argv[1:] if input_args is None else input_args


def _faults(parser: ArgumentParser, values: Namespace) -> Iterator[str]:
    command = _command(values)
    if command is None:
        return

    def given(name: str) -> bool:
        default = parser.get_default(name)
        return bool(getattr(values, name, default) != default)

    for name, commands, instead in IGNORED:
        if command in commands and given(name) and not (name in OF_OTHER_TASKS and values.task not in TEXT_TASKS):
            yield f"--{dashed(name)}: {command} ignores it and {instead}"
    if command == INTERACTIVE:
        if str(values.print_alignment) == "soft":
            yield "--print-alignment must be hard with fairseq-interactive, but is soft, which fairseq-generate prints"
        if values.lm_path and values.task == "translation":
            yield "--lm-path needs --task deep_translation with fairseq-interactive, which ignores it otherwise"
    if command == EVAL_LM and getattr(values, "pad_to_fixed_bsz", False):
        yield "--pad-to-fixed-bsz cannot be combined with fairseq-eval-lm, which takes the padding for sentences"
    if command == GENERATE and given("replace_unk") and values.post_process is not None:
        yield "--replace-unk cannot be combined with --post-process, which moves the words that were aligned"


def _command(values: Namespace) -> str | None:
    """Return which of fairseq's commands has parsed its command line; None for a training or preprocessing."""
    for command, name in MARKS.items():
        if hasattr(values, name):
            return command
    return VALIDATE if hasattr(values, "model_overrides") else None
