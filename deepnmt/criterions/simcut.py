"""`label_smoothed_cross_entropy_simcut`: a batch and its copy with words cut out should be translated alike."""

# No postponed annotations here: fairseq builds its command line from the types of the fields.

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from deepnmt.criterions.consistency import ConsistencyConfig, ConsistencyCriterion
from deepnmt.errors import UserError
from deepnmt.kernels.linear_consistency import Coefficients
from deepnmt.kernels.word_dropout import dropped_source, dropped_target, without
from deepnmt.options.option_table import described


@dataclass
class SimCutConfig(ConsistencyConfig):
    """The options of consistency training, the weight of the divergence and the share to cut."""

    simcut_alpha: float = described(3.0, "weight of the divergence between a batch and the batch cut, at least 0")
    simcut_rate: float = described(0.05, "probability with which a token's embedding is cut, at least 0 and below 1")


class SimCut(ConsistencyCriterion):
    """SimCut (Gao 2022, NAACL, arXiv 2206.02368); for P_cut, the embeddings of random source and target tokens are 0:

        loss = NLL + alpha KL(P | P_cut)                                                              (19)

    The gradient flows into P and P_cut. In training, the log has this as `loss`. Its `nll_loss`, and the perplexity,
    are the NLL without smoothing of P; its `kl_loss` is the divergence.

    Raises:
        UserError: every option that is out of range, a line each
    """  # fmt: skip

    def __init__(self, task: Any, cfg: SimCutConfig) -> None:
        super().__init__(task, cfg)
        faults = []
        if not 0 <= cfg.simcut_alpha < math.inf:
            faults.append(f"--simcut-alpha must be a finite number of at least 0, but is {cfg.simcut_alpha}")
        if not 0 <= cfg.simcut_rate < 1:
            faults.append(f"--simcut-rate must be at least 0 and below 1, but is {cfg.simcut_rate}")
        if faults:
            raise UserError(*faults)
        self.alpha = cfg.simcut_alpha
        self.rate = cfg.simcut_rate
        self.coefficients = Coefficients((1.0, 0.0), (self.alpha, 0.0))
        self.shown = (1.0, 0.0)

    def run(self, model: Any, inputs: dict[str, Any], **options: Any) -> Any:
        """Return the model's output for a doubled batch, whose second half is cut."""
        with cut_second_half(model, self.rate, inputs["prev_output_tokens"], self.padding_idx):
            return super().run(model, inputs, **options)


@contextmanager
def cut_second_half(model: nn.Module, rate: float, target: Tensor, pad: int) -> Iterator[None]:
    """Within the context, each token embedding of a batch's second half is zero with probability `rate`.

    Only the embedding is cut, before it is scaled and positions are added. As in the authors' code, two tokens are
    never cut: the last of a source, and the first of a target, which marks its beginning. torch's generator of the
    device makes the draws; fairseq seeds it for each update.

    Args:
        model: fairseq's or this package's, wrapped for distributed training or not; its embeddings are the modules
            called `embed_tokens`
        rate: probability
        target: the decoder's input, B x T; an embedding of another tensor is the source's
        pad: the index of padding

    Raises:
        UserError: the model lacks such modules
    """

    def cut(module: nn.Module, inputs: tuple[Tensor, ...], embedding: Tensor) -> Tensor:
        tokens = inputs[0]
        is_target = tokens.data_ptr() == target.data_ptr()
        chosen = dropped_target(tokens, rate, pad) if is_target else dropped_source(tokens, rate, pad)
        chosen[: len(tokens) // 2] = False
        return without(embedding, chosen)

    # A module that both stacks share occurs only once.
    tables = [module for name, module in model.named_modules() if name.rpartition(".")[2] == "embed_tokens"]
    if not tables:
        raise UserError("label_smoothed_cross_entropy_simcut needs a model with modules called embed_tokens")
    handles = [table.register_forward_hook(cut) for table in tables]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
