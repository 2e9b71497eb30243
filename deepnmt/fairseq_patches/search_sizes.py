"""Sizes of a search that hang or fill the memory are refused, for fairseq's own commands too."""

from __future__ import annotations

from typing import Any

from fairseq.tasks import FairseqTask

from deepnmt.errors import UserError
from deepnmt.fairseq_patches.batches import GET_BATCH_ITERATOR
from deepnmt.fairseq_patches.patch import replaces
from deepnmt.recipe.ranges import BEAM, RANGES

# The option behind each argument; those of a training have been held against the same table before.
OPTIONS = {
    "max_tokens": "max_tokens",
    "max_sentences": "batch_size",
    "num_workers": "num_workers",
    "data_buffer_size": "data_buffer_size",
    "required_batch_size_multiple": "required_batch_size_multiple",
}


@replaces(
    FairseqTask,
    "build_generator",
    "(self, models, args, seq_gen_cls=None, extra_gen_cls_kwargs=None, prefix_allowed_tokens_fn=None)",
    order=20,
    why="a beam of 1,000 hangs or fills the memory",
)
def check_search_first(stock: Any, self: Any, models: Any, args: Any, *rest: Any, **options: Any) -> Any:
    """Build a generator. Raises `UserError` for a beam or a number of translations that is none, or too large."""
    beam, best = getattr(args, "beam", 5), getattr(args, "nbest", 1)
    faults = []
    if not 1 <= beam <= BEAM:
        faults.append(f"--beam must be from 1 to {BEAM}, but is {beam}")
    elif not 1 <= best <= beam:
        faults.append(f"--nbest must be from 1 to --beam {beam}, but is {best}")
    if not getattr(args, "temperature", 1.0) > 0:
        faults.append(f"--temperature must be above 0, but is {args.temperature}")
    if faults:
        raise UserError(*faults)
    return stock(self, models, args, *rest, **options)


@replaces(
    FairseqTask,
    "get_batch_iterator",
    GET_BATCH_ITERATOR,
    order=20,
    why="fairseq takes --batch-size 0 for one batch of everything",
)
def check_batches_first(stock: Any, self: Any, dataset: Any, *args: Any, **kwargs: Any) -> Any:
    """Make batches. Raises `UserError` for sizes that are out of range."""
    faults = [
        f"--{name.replace('_', '-')} must be {RANGES[name].words}, but is {kwargs[argument]}"
        for argument, name in OPTIONS.items()
        if kwargs.get(argument) is not None and not RANGES[name].holds(kwargs[argument])
    ]
    if faults:
        raise UserError(*faults)
    return stock(self, dataset, *args, **kwargs)
