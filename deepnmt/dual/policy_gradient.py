"""Dual learning from text of one language (He 2016, NIPS, arXiv 1611.00179), by policy gradient.

For source text x, K translations y_k are sampled from `fwd`, each with the reward

    r_k = a log P_LM(y_k) / |y_k| + (1 - a) log P(x|y_k) / |x|

`fwd` learns by policy gradient with the mean reward of the other samples as baseline, `bwd` by its own likelihood:

    loss = - sum_x |x| / K sum_k ((r_k - mean_(i != k) r_i) log P(y_k|x) + (1 - a) log P(x|y_k) / |x|)

The expected gradient is the gradient of - sum_x |x| E r. For target text both models exchange their places. Lengths
count the end symbol. Rewards are computed without dropout and have no gradient.

Shapes: B sentences, H samples, T positions.
"""

from typing import Any, Optional

import torch
from fairseq.data.data_utils import collate_tokens
from torch import Tensor

from deepnmt.criterions.dual_supervised import Pass, pair_log_probs
from deepnmt.criterions.minimum_risk import evaluating
from deepnmt.data.exchanged_pairs import batch_of, to_one_side
from deepnmt.dual.back_translated import translations
from deepnmt.search.parts import longest_translation


def policy_passes(
    generator: Any,
    model: Any,
    directions: tuple[str, str],
    text: Tensor,
    language_model: Optional[Any],
    share: float,
    weight: float,
    pad: int,
    eos: int,
) -> list[Pass]:
    """Return what both directions learn from a batch of text.

    Args:
        generator: samples K translations by the model of the first direction
        model: a `dlcl_dual`
        directions: the direction that translates, and the one that translates back
        text: B x T
        language_model: of the translations' language; None if `share` is 0
        share: a
        weight: of the loss
        pad, eos: numbers of these symbols
    """
    found = translations(generator, getattr(model, directions[0]), text, pad)
    of = torch.tensor([row for row, samples in enumerate(found) for _ in samples], device=text.device)
    samples, text = collate_tokens([each for samples in found for each in samples], pad), text[of]
    there, back = batch_of(text, samples, pad, eos), batch_of(samples, text, pad, eos)
    words, lengths = (tokens.ne(pad).sum(1) for tokens in (samples, text))
    with evaluating(model), torch.no_grad():
        second = getattr(model, directions[1])
        features = second(**back["net_input"], features_only=True)[0]
        rewards = (1 - share) * pair_log_probs(second, features, back["target"], pad) / lengths
        if language_model is not None:
            rewards = rewards + share * sentence_log_probs(language_model, there, pad) / words
    number = torch.bincount(of)[of]
    factors = lengths * advantages(rewards, of) / number
    counts = factors[:, None].expand(samples.shape).clone()
    # The end of the longest samples was not drawn, but forced.
    longest = longest_translation(generator, to_one_side(text, pad, left=True))
    counts[words > longest, longest:] = 0
    likelihood = ((1 - share) / number)[:, None].expand(text.shape)
    return [
        Pass(directions[0], there["net_input"], there["target"], weight, counts),
        Pass(directions[1], back["net_input"], back["target"], weight, likelihood),
    ]


def advantages(rewards: Tensor, of: Tensor) -> Tensor:
    """Return each reward less the mean of the others of its sentence, H; 0 without others. `of` names sentences, H."""
    sums = rewards.new_zeros(int(of.max()) + 1).index_add(0, of, rewards)
    others = torch.bincount(of)[of] - 1
    return torch.where(others > 0, rewards - (sums[of] - rewards) / others.clamp(min=1), torch.zeros_like(rewards))


def sentence_log_probs(language_model: Any, batch: dict[str, Any], pad: int) -> Tensor:
    """Return log P of the targets of a batch by a language model, H."""
    language_model.eval()
    output = language_model(batch["net_input"]["prev_output_tokens"])
    scores = language_model.get_normalized_probs(output, log_probs=True)
    target: Tensor = batch["target"]
    found: Tensor = scores.gather(2, target[:, :, None]).squeeze(2)
    return found.masked_fill(target.eq(pad), 0.0).sum(1)
