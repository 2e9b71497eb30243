"""`masked_language_model`: the cross entropy of the tokens hidden from an encoder (Devlin 2019, arXiv 1810.04805).

    loss = - sum over the chosen positions i of log P(x_i),   P = softmax(E h_i)                (65)

with the encoder's output h_i, and its embedding table E as the output layer. The decoder does not run.

Shapes: B sentences of S positions, N chosen ones of them; C channels, V types.
"""

# No postponed annotations here: fairseq builds its command line from the types of the fields.

import math
from dataclasses import dataclass
from typing import Any

from fairseq.criterions import FairseqCriterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics

from deepnmt.kernels.linear_cross_entropy import linear_cross_entropy


@dataclass
class MaskedLanguageModelConfig(FairseqDataclass):  # type: ignore[misc]
    """No options."""


class MaskedLanguageModel(FairseqCriterion):  # type: ignore[misc]
    """See above; for batches of the task `deep_masked_lm`."""

    def __init__(self, task: Any, cfg: MaskedLanguageModelConfig) -> None:
        super().__init__(task)
        self.padding_idx = task.source_dictionary.pad()

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Any, int, dict[str, Any]]:
        """Return the loss of a batch, summed over its N chosen positions, in nats, with N and the log."""
        states, _ = model(**sample["net_input"], prev_output_tokens=None, source_only=True)  # B x S x C
        chosen = sample["target"].ne(self.padding_idx)
        table = model.encoder.embed_tokens.weight
        losses = linear_cross_entropy(states[chosen], table, sample["target"][chosen], 0.0, accuracy=True)
        size = int(sample["ntokens"])
        log = {"loss": losses.loss.detach(), "n_correct": losses.correct, "sample_size": size}
        return losses.loss, size, {**log, "ntokens": size, "nsentences": len(chosen)}

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict[str, Any]]) -> None:
        """Log loss, in bits per chosen position, perplexity, and the share of chosen tokens that are found."""
        total, found, size = (
            sum(int(log[name]) if name == "sample_size" else float(log[name]) for log in logging_outputs)
            for name in ("loss", "n_correct", "sample_size")
        )
        metrics.log_scalar("loss", total / size / math.log(2), size, round=3)
        metrics.log_scalar("accuracy", 100 * found / size, size, round=2)
        metrics.log_derived("ppl", lambda meters: 2 ** meters["loss"].avg)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Return whether fairseq may add the logs of several processes."""
        return True
