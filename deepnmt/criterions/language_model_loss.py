"""`label_smoothed_cross_entropy_lm`: the losses of a translation model and of the language model in its decoder."""

# No postponed annotations here: fairseq builds its command line from the types of the fields.

import math
from dataclasses import dataclass
from typing import Any

from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterionConfig

from deepnmt.criterions.fused import FusedLabelSmoothedCrossEntropy, obstacle
from deepnmt.data.companions import MONO, TARGET
from deepnmt.data.exchanged_pairs import batch_of
from deepnmt.data.weighted_pairs import PAIRS, TOKENS, WEIGHTS
from deepnmt.errors import UserError
from deepnmt.kernels.linear_cross_entropy import linear_cross_entropy
from deepnmt.options.option_table import TRAINING, described, range_faults


@dataclass
class LanguageModelLossConfig(LabelSmoothedCrossEntropyCriterionConfig):  # type: ignore[misc]
    """fairseq's options of the label-smoothed cross entropy, and the weight of the language model's."""

    lm_loss_weight: float = described(1.0, "weight of the loss of the language model in the decoder on --mono's text")


class LanguageModelLoss(FusedLabelSmoothedCrossEntropy):
    """A language model in the decoder (Domhan and Hieber 2017, EMNLP, D17-1158):

        loss = NLL(pairs) + l n / m NLL_LM(text)

    both label-smoothed. n counts the target tokens of the pairs, by their weights, and m the tokens of the text beside
    them: each loss is a mean per token. The language model is the decoder's lowest layers, with the output layer of the
    whole decoder. Validation has the first term alone, and so has training with l = 0. In training, the log has the
    second one as `lm_loss`.

    Raises:
        UserError: the weight or the prefix to be ignored is out of range
    """  # fmt: skip

    def __init__(self, task: Any, cfg: LanguageModelLossConfig) -> None:
        super().__init__(task, cfg.sentence_avg, cfg.label_smoothing, cfg.ignore_prefix_size, cfg.report_accuracy)
        own = {"lm_loss_weight": cfg.lm_loss_weight}
        faults = [f"--{name} {rest}" for name, rest in range_faults(own, TRAINING)]
        if cfg.ignore_prefix_size:
            must = "must be 0 with a language model in the decoder"
            faults.append(f"--ignore-prefix-size {must}, but is {cfg.ignore_prefix_size}")
        if faults:
            raise UserError(*faults)
        self.weight = cfg.lm_loss_weight
        self.eos = task.target_dictionary.eos()

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Any, int, dict[str, Any]]:
        """Return the loss of a batch, as in fairseq's criterions; in training with text always reduced.

        Raises:
            UserError: in training, there is no text, or the model's features cannot be projected separately
        """
        if not model.training or not self.weight:
            result: tuple[Any, int, dict[str, Any]] = super().forward(model, sample, reduce)
            return result
        if MONO not in sample:
            raise UserError("--mono must be given to train with an --lm-loss-weight, but is not")
        if reason := obstacle(model):
            raise UserError(f"--lm-loss-weight cannot be used with this model: {reason}")
        text = batch_of(sample[MONO][TARGET], sample[MONO][TARGET], self.padding_idx, self.eos)
        inputs = {**sample["net_input"], "text": text["net_input"]["prev_output_tokens"]}
        features, extra = model(**inputs, features_only=True)
        weight, found = model.decoder.output_projection.weight, []
        weights = sample.get(WEIGHTS)
        for output, target, accuracy, own in (
            (features, sample["target"], self.report_accuracy, weights),
            (extra["text_output"], text["target"], False, None),
        ):
            counted = target.ne(self.padding_idx).nonzero(as_tuple=True)
            counts = None if own is None else own[counted[0]]
            found.append(linear_cross_entropy(output[counted], weight, target[counted], self.eps, accuracy, counts))
        pairs, alone = found
        words, others = (int(target.ne(self.padding_idx).sum()) for target in (sample["target"], text["target"]))
        size = None if weights is None else sample[PAIRS if self.sentence_avg else TOKENS]
        loss = pairs.loss + self.weight * (words if weights is None else sample[TOKENS]) / others * alone.loss
        logged = {"nll_loss": pairs.nll, "lm_loss": alone.nll, "lm_ntokens": others}
        logged |= {"n_correct": int(pairs.correct), "total": words} if self.report_accuracy else {}
        return self.result(sample, loss, size, **logged)

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict[str, Any]]) -> None:
        """Log what fairseq logs, and the language model's loss in bits per token."""
        super().reduce_metrics(logging_outputs)
        cls.log_mean(logging_outputs, "lm_loss", "lm_ntokens", math.log(2), 3)
