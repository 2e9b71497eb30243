"""Checks of the options of fairseq-generate, fairseq-interactive and fairseq-validate against their abilities."""

import logging
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from fairseq import options, utils
from fairseq.dataclass.configs import GenerationConfig
from fairseq.tasks import TASK_REGISTRY
from fairseq.tasks.language_modeling import LanguageModelingTask
from omegaconf import DictConfig

from deepnmt.console import is_command
from deepnmt.errors import UserError, in_place_of
from deepnmt.fairseq_patches.checks.not_autoregressive import beam_search_faults
from deepnmt.fairseq_patches.patch import replaces
from deepnmt.literals import literal
from deepnmt.options.option_table import TRAINING, dashed, range_faults
from deepnmt.recipe.combinations import ITERATIVE_TASK
from deepnmt.text.lines import is_named_pipe

logger = logging.getLogger(__name__)

# Of Levenshtein Transformers and their like; other searches ignore them, or fail.
ITERATIVE = (
    "iter_decode_eos_penalty",
    "iter_decode_max_iter",
    "iter_decode_force_max_iter",
    "iter_decode_with_beam",
    "iter_decode_with_external_reranker",
    "decoding_format",
    "print_step",
    "retain_iter_history",
)


@replaces(
    utils, "import_user_module", order=10, why="name faulty options of a search or validation before loading anything"
)
def check_evaluation_first(stock: Any, args: Any) -> None:
    """Check the options of a command that reads models: it does this first of all.

    Raises:
        UserError: all faulty options, a line each
    """
    whole: Any = args._get_root() if isinstance(args, DictConfig) else {}
    # A training has an optimizer.
    if "common_eval" in whole and whole.optimizer is None and (faults := list(_faults(whole))):
        raise in_place_of(Exception if whole.common_eval.path else AssertionError, *faults)
    stock(args)


def _faults(cfg: Any) -> Iterator[str]:
    evaluated, search = cfg.common_eval, cfg.generation
    if not evaluated.path:
        yield "--path must be a checkpoint, or several with colons between them, but is not given"
    if not isinstance(literal(evaluated.model_overrides), dict):
        yield f"--model-overrides must be a dictionary such as {{'data': 'DATA'}}, but is {evaluated.model_overrides}"
    yield from (f"--{name} {fault}" for name, fault in range_faults({"seed": cfg.common.seed}, TRAINING))
    if cfg.task._name == "translation_from_pretrained_bart" and cfg.task.langs is None:
        yield "--langs must be the languages of the pretrained model, such as en_XX,de_DE, but is not given"
    text = Path(cfg.interactive.input)
    if is_named_pipe(text):
        yield f"--input must be a file, or - for standard input, but is the named pipe {text}"
    elif text.is_file() and text.read_bytes()[: len(BOM_UTF8)] == BOM_UTF8:
        yield f"--input must begin with text, but {text} begins with a byte order mark, a part of its first word here"
    window, tokens = cfg.eval_lm.context_window, getattr(cfg.task, "tokens_per_sample", None)
    if tokens is not None and 0 < tokens <= window:
        yield f"--context-window must be below --tokens-per-sample {tokens}, but is {window}"
    if not str(cfg.task._name).endswith("_lev"):
        for option in fields(GenerationConfig):
            if option.name in ITERATIVE and search[option.name] != option.default:
                yield f"--{dashed(option.name)} must be given with an iterative decoder alone"
    if cfg.task._name == ITERATIVE_TASK:
        yield from beam_search_faults(search)


@replaces(
    options, "parse_args_and_arch", order=10, why="name a missing --task or --arch, on which other options depend"
)
def ask_for_a_task(stock: Any, parser: Any, *args: Any, **kwargs: Any) -> Any:
    """Parse a command line. Raises `UserError` if it has to name a task and does not, or names the wrong one."""
    try:
        parsed = stock(parser, *args, **kwargs)
    except KeyError as error:
        if error.args != (None,):
            raise
        raise in_place_of(KeyError, "--task must be given, such as --task translation, but is not") from None
    except RuntimeError as error:
        if error.args:
            raise
        raise in_place_of(RuntimeError, "--arch must be given, such as --arch dlcl_transformer, but is not") from None
    # fairseq-eval-lm alone has this option.
    if hasattr(parsed, "softmax_batch") and not hasattr(TASK_REGISTRY[parsed.task], "eval_lm_dataloader"):
        raise UserError(f"--task must be one of language models, such as language_modeling, but is {parsed.task}")
    return parsed


@replaces(LanguageModelingTask, "eval_lm_dataloader", order=10, why="fairseq-eval-lm drops texts beyond the positions")
def evaluate_everything(stock: Any, self: Any, dataset: Any, *args: Any, **kwargs: Any) -> Any:
    """Make the batches of an evaluation. Raises `UserError` if a command would leave text out; a program is told."""
    most = kwargs.get("max_positions")
    longest = max(map(int, dataset.sizes), default=0) + kwargs.get("context_window", 0)
    if isinstance(most, int) and longest > most:
        fault = (
            f"--tokens-per-sample must be at most the {most} positions of the model, but a sample has {longest} tokens"
        )
        if is_command():
            raise UserError(fault)
        logger.warning(fault)
    return stock(self, dataset, *args, **kwargs)
