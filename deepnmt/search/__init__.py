"""Translation in less time: fairseq's tasks get a beam search of this package, for all its commands.

fairseq's own option --no-beamable-mm, "don't use BeamableMM in attention layers", gives fairseq's own search.
"""

from __future__ import annotations

from typing import Any

from fairseq.tasks import FairseqTask

from deepnmt.search.generator import BeamGenerator

__all__ = ["BeamGenerator", "apply"]


def apply() -> None:
    """Let `FairseqTask.build_generator` build a `BeamGenerator` where it would build a `SequenceGenerator`."""
    stock = FairseqTask.build_generator

    def build_generator(self: Any, models: Any, args: Any, seq_gen_cls: Any = None, *rest: Any, **options: Any) -> Any:
        own = not (getattr(args, "no_beamable_mm", False) or getattr(args, "print_alignment", False))
        if seq_gen_cls is None and own:
            seq_gen_cls = BeamGenerator
        return stock(self, models, args, seq_gen_cls, *rest, **options)

    FairseqTask.build_generator = build_generator
