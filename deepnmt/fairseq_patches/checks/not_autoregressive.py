"""Models that are not autoregressive have a task and a search of their own, which know no beam.

fairseq fails at other combinations in the middle of a search, and ignores the options of beam search.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Optional

from fairseq.dataclass.configs import GenerationConfig
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.nat import FairseqNATModel
from fairseq.tasks import FairseqTask
from fairseq.tasks.translation_lev import TranslationLevenshteinTask

from deepnmt.errors import UserError
from deepnmt.fairseq_patches.patch import replaces
from deepnmt.options.option_table import option
from deepnmt.recipe.combinations import ITERATIVE_TASK as TASK

LOSS = "nat_loss"
# Options that the iterations ignore.
OF_BEAM_SEARCH = (
    *("nbest", "max_len_a", "max_len_b", "min_len", "match_source_len", "unnormalized", "lenpen", "unkpen"),
    *("score_reference", "prefix_size", "no_repeat_ngram_size", "sampling", "sampling_topk", "sampling_topp"),
    *("constraints", "temperature", "diverse_beam_groups", "diverse_beam_strength", "diversity_rate"),
    *("lm_path", "lm_weight", "print_alignment"),
)


@replaces(FairseqTask, "build_generator", order=30, why="a model that is not autoregressive fails in beam search")
def refuse_beam_search(stock: Any, self: Any, models: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
    """Build a search. Raises `UserError` for models that this task cannot search with."""
    if any(isinstance(model, FairseqNATModel) for model in models):
        name = getattr(getattr(self, "cfg", None), "_name", type(self).__name__)
        raise UserError(f"--task must be {TASK} with a model that is not autoregressive, but is {name}")
    return stock(self, models, *args, **kwargs)


@replaces(
    TranslationLevenshteinTask, "build_generator", order=10, why="an autoregressive model fails in translation_lev"
)
def refuse_iterations(stock: Any, self: Any, models: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
    """Build a search. Raises `UserError` for models that it cannot search with."""
    if not all(isinstance(model, FairseqNATModel) for model in models):
        raise UserError(f"--task must be translation or deep_translation with an autoregressive model, but is {TASK}")
    return stock(self, models, *args, **kwargs)


def beam_search_faults(search: Any) -> Iterator[str]:
    """Yield each given option of beam search; fairseq's documents give --beam 1 for its iterations."""
    defaults = {name: field.default for name, field in GenerationConfig.__dataclass_fields__.items()}
    given = [name for name in OF_BEAM_SEARCH if search[name] != defaults[name]]
    if search["beam"] not in (1, defaults["beam"]):
        given.insert(0, "beam")
    yield from (f"{option(name)} cannot be combined with --task {TASK}, which has no beam search" for name in given)


def training_faults(arch: Optional[str], criterion: Optional[str], task: Optional[str]) -> Iterator[str]:
    """Yield a loss or a task that does not fit the architecture."""
    kind = ARCH_MODEL_REGISTRY.get(arch)
    if kind is None:
        return
    if not issubclass(kind, FairseqNATModel):
        if criterion == LOSS:
            yield f"--arch must be a non-autoregressive model with --criterion {LOSS}, but is {arch}"
        return
    for name, value, must in (("criterion", criterion, LOSS), ("task", task, TASK)):
        if value != must:
            yield f"--{name} must be {must} with --arch {arch}, but is {value}"
