"""log P of beginnings of translations, for the search of confusion networks.

    log P(y_1 ... y_n) = sum_i log p(y_i | y_1 ... y_{i-1}),    p = the mean of the models' probabilities

The continuations of a prefix are scored once, for all subwords of its network together. A search tries many
continuations of the few prefixes that it keeps.

Shapes: R beginnings of a batch; T tokens of the longest; C channels; V types; N subwords of a network.
"""

from collections.abc import Sequence
from typing import Any

import torch
from fairseq.data.data_utils import collate_tokens
from torch import Tensor

from deepnmt.reranking.confusion_network import Prefix, Slot
from deepnmt.reranking.model_scores import LoadedModels, encode

# In the place of a subword, for the end of a translation: no subword is empty.
END = ""
Beginning = tuple[int, Prefix]  # the number of its sentence, and its subwords


class PrefixScorer:
    """Scores prefixes by the mean probability of models, whose encoders see each source once.

    Args:
        loaded: translation models
        sources: of some sentences, as subwords
        networks: of each sentence; prefixes consist of their subwords
        max_tokens: of a batch, padding included
    """

    def __init__(
        self, loaded: LoadedModels, sources: Sequence[str], networks: Sequence[Sequence[Slot]], max_tokens: int
    ) -> None:
        self.loaded, self.max_tokens = loaded, max_tokens
        # Without slots there is nothing to score; the source may be longer than the models' positions.
        encoded = [encode(loaded.source, source if slots else "") for source, slots in zip(sources, networks)]
        tokens = collate_tokens(encoded, loaded.source.pad(), left_pad=True)
        self.device = torch.device("cuda" if loaded.cuda else "cpu")
        lengths = torch.tensor([len(each) for each in encoded], device=self.device)
        with torch.no_grad():
            self.encoded = [model.encoder(tokens.to(self.device), src_lengths=lengths) for model in loaded.models]
        # Of each sentence, its subwords and their numbers in the dictionary.
        self.subwords = [
            [END, *dict.fromkeys(s for slot in slots for word in slot for s in word)] for slots in networks
        ]
        self.types = [
            torch.tensor([loaded.target.index(each) if each else loaded.target.eos() for each in subwords])
            for subwords in self.subwords
        ]
        self.after: dict[Beginning, dict[str, float]] = {}  # log p of each subword after a beginning
        self.total: dict[Beginning, float] = {(number, ()): 0.0 for number in range(len(sources))}  # log P

    def __call__(self, wanted: Sequence[Beginning], ended: bool) -> list[float]:
        """Return log P of prefixes, given with the numbers of their sources; `ended` with the end symbol."""
        ends = (END,) if ended else ()
        paths = [(number, (*prefix, *ends)) for number, prefix in wanted]
        needed = {(number, path[:length]) for number, path in paths for length in self._unknown(number, path)}
        self._find([each for each in needed if each not in self.after])
        return [self._total(number, path) for number, path in paths]

    def _unknown(self, number: int, path: Prefix) -> range:
        """Return how many subwords there are before each whose log P is not known yet."""
        known = len(path)
        while (number, path[:known]) not in self.total:
            known -= 1
        return range(known, len(path))

    def _total(self, number: int, path: Prefix) -> float:
        for length in self._unknown(number, path):
            before = number, path[:length]
            self.total[number, path[: length + 1]] = self.total[before] + self.after[before][path[length]]
        return self.total[number, path]

    def _find(self, beginnings: list[Beginning]) -> None:
        """Find what may follow these beginnings."""
        # By length, and in an order that does not depend on the set's.
        beginnings.sort(key=lambda each: (len(each[1]), each))
        batch: list[Beginning] = []
        for each in beginnings:
            # The start symbol stands before the subwords; of a batch, the last is the longest.
            if batch and (len(batch) + 1) * (len(each[1]) + 1) > self.max_tokens:
                self._find_batch(batch)
                batch = []
            batch.append(each)
        if batch:
            self._find_batch(batch)

    @torch.no_grad()
    def _find_batch(self, beginnings: list[Beginning]) -> None:
        target = self.loaded.target
        tokens = [encode(target, " ".join(prefix)) for _, prefix in beginnings]
        before = collate_tokens(tokens, target.pad(), target.eos(), move_eos_to_beginning=True).to(self.device)  # R x T
        last = torch.tensor([len(each) - 1 for each in tokens], device=self.device)
        numbers = [number for number, _ in beginnings]
        chosen = torch.tensor(numbers, device=self.device)
        each = [self._model_scores(*pair, chosen, before, last) for pair in zip(self.loaded.models, self.encoded)]
        log_probs = each[0]
        if len(each) > 1:
            log_probs = torch.stack(each).logsumexp(0) - torch.tensor(float(len(each))).log()
        for beginning, number, row in zip(beginnings, numbers, log_probs.cpu()):
            self.after[beginning] = dict(zip(self.subwords[number], row[self.types[number]].tolist()))

    def _model_scores(self, model: Any, encoded: Any, chosen: Tensor, before: Tensor, last: Tensor) -> Tensor:
        """Return the log-probabilities of all types after the last tokens by one model, R x V."""
        memory = model.encoder.reorder_encoder_out(encoded, chosen)
        features, extra = model.decoder(before, encoder_out=memory, features_only=True)
        features = features[torch.arange(len(last), device=self.device), last]  # R x C
        logits = model.decoder.output_layer(features)
        log_probs: Tensor = model.get_normalized_probs((logits, extra), log_probs=True).float()
        return log_probs
