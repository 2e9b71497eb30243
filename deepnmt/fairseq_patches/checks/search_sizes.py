"""Sizes of a search that hang or fill the memory are refused, for fairseq's own commands too."""

import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Optional, get_type_hints

from fairseq.dataclass.configs import GenerationConfig
from fairseq.models import FairseqLanguageModel
from fairseq.modules import FairseqDropout
from fairseq.tasks import FairseqTask

from deepnmt.errors import in_place_of
from deepnmt.fairseq_patches.patch import replaces
from deepnmt.options.option_table import OPTIONS, SEARCH, TRAINING, dashed, range_faults

OFF = ("diverse_beam_groups", "sampling_topk", "sampling_topp")
KINDS = {bool: "true or false", int: "a whole number", float: "a number"}
# The option behind each argument; a training's options have been checked against the same table before.
SAME = ("max_tokens", "num_workers", "data_buffer_size", "required_batch_size_multiple")
ARGUMENTS = {**{name: name for name in SAME}, "max_sentences": "batch_size"}


@replaces(FairseqTask, "build_generator", order=20, why="a beam of 1,000 hangs or fills the memory")
def check_search_first(stock: Any, self: Any, models: Any, args: Any, *rest: Any, **options: Any) -> Any:
    """Build a generator. Raises `UserError` for invalid or too large sizes, and numbers that are not finite."""
    # --eval-bleu-args is JSON, whose values fairseq takes as they are.
    if not (faults := list(_kind_faults(args))):
        values = {name: getattr(args, name, None) for name in OPTIONS}
        faults = [f"--{name} {fault}" for name, fault in range_faults(values, SEARCH)]
    if not faults:
        # Both as fairseq's commands and as this package's task give it.
        more = options.get("extra_gen_cls_kwargs") or (rest[1] if len(rest) > 1 else None) or {}
        language_model = more.get("lm_model")
        faults = [*_size_faults(self, args), *_combination_faults(args, language_model is not None)]
        faults += [*_dropout_faults(models, args), *_reference_faults(self, args)]
        if language_model is not None and not isinstance(language_model, FairseqLanguageModel):
            faults.append(f"--lm-path must be a language model, but is a {type(language_model).__name__}")
    if faults:
        kind: type[Exception] = ValueError
        try:
            stock(self, models, args, *rest, **options)
        except Exception as error:  # fairseq's own message about these options
            kind = type(error)
        raise in_place_of(kind, *faults)
    return stock(self, models, args, *rest, **options)


def _size_faults(task: Any, args: Any) -> Iterator[str]:
    beam, best = getattr(args, "beam", GenerationConfig.beam), getattr(args, "nbest", 1)
    if best > beam:
        yield f"--nbest must be from 1 to --beam {beam}, but is {best}"
    types = len(task.target_dictionary)
    if getattr(args, "sampling", False) and getattr(args, "sampling_topk", -1) > types:
        yield f"--sampling-topk must be at most the {types} types of the dictionary, but is {args.sampling_topk}"
    groups = getattr(args, "diverse_beam_groups", -1)
    if groups > 0 and beam % groups:
        yield f"--diverse-beam-groups must divide --beam {beam}, but is {groups}"


# An option, and the one without which it does nothing.
NEEDS = {
    "diverse_beam_strength": "diverse_beam_groups",
    "lm_weight": "lm_path",
    "retain_dropout_modules": "retain_dropout",
}
# Pairs of options in which one would be ignored, or obstruct the other.
EXCLUDE = (
    ("sampling_topk", "sampling_topp"),
    ("constraints", "no_repeat_ngram_size"),
    ("match_source_len", "no_beamable_mm"),
    ("match_source_len", "print_alignment"),
    ("match_source_len", "replace_unk"),
    ("score_reference", "replace_unk"),
)


def _combination_faults(args: Any, fused: bool) -> Iterator[str]:
    """Yield the options that need another one, and the options that exclude each other."""
    given = {each.name for each in fields(GenerationConfig) if _is_given(getattr(args, each.name, each.default), each)}
    for name, other in NEEDS.items():
        if name in given and other not in given and not (fused and other == "lm_path"):
            yield f"--{dashed(name)} needs --{dashed(other)}"
    for name, other in EXCLUDE:
        if {name, other} <= given:
            yield f"--{dashed(name)} cannot be combined with --{dashed(other)}"
    if "replace_unk" in given and str(getattr(args, "print_alignment", None)) == "soft":
        yield "--replace-unk cannot be combined with --print-alignment soft"


def _dropout_faults(models: Any, args: Any) -> Iterator[str]:
    """Yield the kinds of modules whose dropout is to stay, but which no model has."""
    wanted = module_names(getattr(args, "retain_dropout_modules", None))
    if wanted and getattr(args, "retain_dropout", False):
        modules = (module for model in models for module in model.modules())
        found = {str(module.module_name) for module in modules if isinstance(module, FairseqDropout)} - {"None"}
        if unknown := sorted(set(wanted) - found):
            yield f"--retain-dropout-modules must be among {', '.join(sorted(found))}, but is {', '.join(unknown)}"


def _reference_faults(task: Any, args: Any) -> Iterator[str]:
    """Yield the options that need reference translations, if a loaded subset lacks them."""
    datasets = (getattr(task, "datasets", None) or {}).items()
    without = [str(subset) for subset, dataset in datasets if getattr(dataset, "tgt", True) is None]
    for name in ("prefix_size", "score_reference"):
        if getattr(args, name, False) and without:
            yield f"--{dashed(name)} needs reference translations, which {', '.join(without)} does not have"


@replaces(FairseqDropout, "make_generation_fast_", order=10, why="--retain-dropout-modules matches parts of names")
def compare_whole_names(
    stock: Any, self: Any, name: str, retain_dropout: bool = False, retain_dropout_modules: Any = None, **kwargs: Any
) -> None:
    """Keep the dropout of the kinds of modules that are given, with commas or as a list."""
    stock(self, name, retain_dropout, module_names(retain_dropout_modules), **kwargs)


def module_names(given: Any) -> Optional[list[str]]:
    """Return the names in a list or its text; None if nothing is given."""
    return None if given is None else re.findall(r"\w+", given) if isinstance(given, str) else list(given)


def _is_given(value: Any, option: Any) -> bool:
    # A number that is not above zero switches some options off.
    return value != option.default and value not in (None, False) and not (option.name in OFF and value <= 0)


def _kind_faults(args: Any) -> Iterator[str]:
    """Yield each option of a search whose value is of another kind than it must be."""
    for name, kind in get_type_hints(GenerationConfig).items():
        if kind not in KINDS or not hasattr(args, name):
            continue
        value = getattr(args, name)
        right = isinstance(value, (int, float) if kind is float else kind)
        if not right or (kind is not bool and isinstance(value, bool)):
            yield f"--{dashed(name)} must be {KINDS[kind]}, but is {value!r}"


@replaces(FairseqTask, "get_batch_iterator", order=20, why="fairseq takes --batch-size 0 for one batch of everything")
def check_batches_first(stock: Any, self: Any, dataset: Any, *args: Any, **kwargs: Any) -> Any:
    """Make batches. Raises `UserError` for sizes that are out of range."""
    values = {name: kwargs.get(argument) for argument, name in ARGUMENTS.items()}
    if faults := [f"--{name} {fault}" for name, fault in range_faults(values, TRAINING)]:
        raise in_place_of(ValueError, *faults)
    return stock(self, dataset, *args, **kwargs)
