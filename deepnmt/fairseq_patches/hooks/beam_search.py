"""The package's beam search for all of fairseq's commands and tasks, and repairs of fairseq's own.

fairseq's own option --no-beamable-mm, "don't use BeamableMM in attention layers", which does nothing in fairseq any
more, gives fairseq's own search.
"""

from typing import Any, Optional

from fairseq import search
from fairseq.ngram_repeat_block import NGramRepeatBlock
from fairseq.sequence_generator import SequenceGeneratorWithAlignment
from fairseq.tasks import FairseqTask
from torch import Tensor

from deepnmt.errors import UserError
from deepnmt.fairseq_patches.patch import replaces
from deepnmt.model.dual import DualModel
from deepnmt.options.dual_rules import UNSPLIT
from deepnmt.search.diverse_groups import DiverseGroups
from deepnmt.search.generator import BeamGenerator
from deepnmt.search.repetition import forbid_repeats


@replaces(FairseqTask, "build_generator", order=10, why="beam search in less time")
def build_beam_generator(
    stock: Any,
    self: Any,
    models: Any,
    args: Any,
    seq_gen_cls: Any = None,
    extra_gen_cls_kwargs: Optional[dict[str, Any]] = None,
    prefix_allowed_tokens_fn: Any = None,
) -> Any:
    """Build a `BeamGenerator` where fairseq would build a `SequenceGenerator`; no model may have both directions."""
    if any(isinstance(model, DualModel) for model in models):
        raise UserError(UNSPLIT)
    more = dict(extra_gen_cls_kwargs or {})
    if seq_gen_cls is None:
        printed, replaced = getattr(args, "print_alignment", None), getattr(args, "replace_unk", None) is not None
        if printed or replaced:
            # --replace-unk reads alignments, which fairseq makes for --print-alignment alone.
            seq_gen_cls, more["print_alignment"] = SequenceGeneratorWithAlignment, "hard" if replaced else printed
        elif not getattr(args, "no_beamable_mm", False):
            seq_gen_cls = BeamGenerator
    return stock(self, models, args, seq_gen_cls, more, prefix_allowed_tokens_fn)


@replaces(NGramRepeatBlock, "forward", order=10, why="--no-repeat-ngram-size does nothing (issue 5206)")
def forbid_repeats_at_last(
    stock: Any, self: Any, tokens: Tensor, lprobs: Tensor, bsz: int, beam_size: int, step: int
) -> Tensor:
    """Forbid the n-grams that hypotheses have; `tokens` are as long as a translation may become, and padded."""
    forbid_repeats(lprobs, tokens[:, 1 : step + 1], self.no_repeat_ngram_size)
    return lprobs


@replaces(
    search, "DiverseBeamSearch", order=10, why="--diverse-beam-groups continues ended hypotheses and fails on batches"
)
def search_in_groups(
    stock: Any,
    tgt_dict: Any,
    num_groups: int,
    diversity_strength: float,
    diversity_discount: float = 1.0,
    candidate_multiple: int = 1,
) -> DiverseGroups:
    """Return the package's search in groups, which looks at as many candidates as it needs."""
    return DiverseGroups(tgt_dict, num_groups, diversity_strength, diversity_discount)
