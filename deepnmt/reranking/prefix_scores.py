"""log P of beginnings of translations, for the search of confusion networks.

Shapes: R prefixes of a batch; T tokens of the longest, the end symbol included; V types; S source positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from fairseq.data.data_utils import collate_tokens
from torch import Tensor

from deepnmt.reranking.loaded_models import LoadedModels, encode
from deepnmt.reranking.network_search import Prefix


class PrefixScorer:
    """Scores prefixes by the mean probability of models, whose encoders see each source once.

    Args:
        loaded: translation models
        sources: of some sentences, as subwords
        max_tokens: of a batch, padding included
    """

    def __init__(self, loaded: LoadedModels, sources: Sequence[str], max_tokens: int) -> None:
        self.loaded, self.max_tokens = loaded, max_tokens
        encoded = [encode(loaded.source, source) for source in sources]
        tokens = collate_tokens(encoded, loaded.source.pad(), left_pad=True)
        self.device = torch.device("cuda" if loaded.cuda else "cpu")
        lengths = torch.tensor([len(each) for each in encoded], device=self.device)
        with torch.no_grad():
            self.encoded = [model.encoder(tokens.to(self.device), src_lengths=lengths) for model in loaded.models]

    def __call__(self, wanted: Sequence[tuple[int, Prefix]], ended: bool) -> list[float]:
        """Return log P of prefixes.

        Args:
            wanted: numbers of sources, and prefixes
            ended: with the end symbol
        """
        targets = [encode(self.loaded.target, " ".join(prefix)) for _, prefix in wanted]
        order = sorted(range(len(wanted)), key=lambda index: len(targets[index]))
        result = [0.0] * len(wanted)
        start = 0
        while start < len(order):
            rows = [order[start]]
            while start + len(rows) < len(order):
                index = order[start + len(rows)]
                if len(targets[index]) * (len(rows) + 1) > self.max_tokens:
                    break
                rows.append(index)
            scores = self._scores([wanted[row][0] for row in rows], [targets[row] for row in rows], ended)
            for row, score in zip(rows, scores.tolist()):
                result[row] = score
            start += len(rows)
        return result

    @torch.no_grad()
    def _scores(self, sources: list[int], targets: list[Tensor], ended: bool) -> Tensor:
        """Return log P of each of a batch, R."""
        pad, eos = self.loaded.target.pad(), self.loaded.target.eos()
        after = collate_tokens(targets, pad).to(self.device)  # R x T
        before = collate_tokens(targets, pad, eos, move_eos_to_beginning=True).to(self.device)
        chosen = torch.tensor(sources, device=self.device)
        each = [self._model_scores(*pair, chosen, before, after) for pair in zip(self.loaded.models, self.encoded)]
        log_probs = each[0]
        if len(each) > 1:
            log_probs = torch.stack(each).logsumexp(0) - torch.tensor(float(len(each))).log()
        counts = after.ne(pad) if ended else after.ne(pad) & after.ne(eos)
        total: Tensor = (log_probs * counts).double().sum(1)
        return total

    def _model_scores(self, model: Any, encoded: Any, chosen: Tensor, before: Tensor, after: Tensor) -> Tensor:
        """Return the log-probabilities of the tokens by one model, R x T."""
        output = model.decoder(before, encoder_out=model.encoder.reorder_encoder_out(encoded, chosen))
        log_probs: Tensor = model.get_normalized_probs(output, log_probs=True).float()
        return log_probs.gather(2, after.unsqueeze(-1)).squeeze(-1)
