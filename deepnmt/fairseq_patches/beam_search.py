"""The package's beam search for all of fairseq's commands and tasks.

fairseq's own option --no-beamable-mm, "don't use BeamableMM in attention layers", which does nothing in fairseq any
more, gives fairseq's own search.
"""

from __future__ import annotations

from typing import Any

from fairseq.tasks import FairseqTask

from deepnmt.fairseq_patches.patch import replaces
from deepnmt.search.generator import BeamGenerator


@replaces(
    FairseqTask,
    "build_generator",
    "(self, models, args, seq_gen_cls=None, extra_gen_cls_kwargs=None, prefix_allowed_tokens_fn=None)",
    order=10,
    why="beam search in less time",
)
def build_beam_generator(
    stock: Any, self: Any, models: Any, args: Any, seq_gen_cls: Any = None, *rest: Any, **options: Any
) -> Any:
    """Build a `BeamGenerator` where fairseq would build a `SequenceGenerator`."""
    own = not (getattr(args, "no_beamable_mm", False) or getattr(args, "print_alignment", False))
    if seq_gen_cls is None and own:
        seq_gen_cls = BeamGenerator
    return stock(self, models, args, seq_gen_cls, *rest, **options)
