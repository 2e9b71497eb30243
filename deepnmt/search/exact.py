"""The most probable string, found by exhaustive search (Stahlberg and Byrne 2019, EMNLP, arXiv 1908.10090).

Strings are searched depth first. log P of a prefix never rises as the prefix grows, so a prefix is abandoned unless its
log P exceeds the best string's. The search starts from a result of beam search. Prefixes are expanded in batches.

Shapes: N prefixes, V types.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from fairseq.data import data_utils
from torch import Tensor

# What a string must be better by: sums of the same numbers in another order differ by less.
MARGIN = 1e-4
BATCH = 64
String = tuple[int, ...]
Predictor = Callable[[Sequence[String]], Tensor]


class BestString(NamedTuple):
    """The result of the search.

    Attributes:
        string: tokens without the end symbol
        log_prob: its log P
        complete: whether no string is better, or time ran out
        expanded: number of expanded prefixes
    """

    string: String
    log_prob: float
    complete: bool
    expanded: int


def best_string(
    predict: Predictor, start: String, log_prob: float, eos: int, pad: int, longest: int, seconds: float
) -> BestString:
    """Search all strings for one that is better than `start`.

    Args:
        predict: gives the log-probabilities, N x V, of the next token after N prefixes
        start: without the end symbol
        log_prob: of `start`
        eos, pad: the end symbol; the padding symbol, which never occurs
        longest: greatest number of tokens before the end symbol
        seconds: time limit
    """
    best, bound, expanded = start, log_prob + MARGIN, 0
    end = time.monotonic() + seconds
    waiting: list[tuple[float, String]] = [(0.0, ())]
    while waiting:
        if time.monotonic() >= end:
            return BestString(best, log_prob, False, expanded)
        batch: list[tuple[float, String]] = []
        while waiting and len(batch) < BATCH:
            total, prefix = waiting.pop()
            if total > bound:
                batch.append((total, prefix))
        if not batch:
            break
        expanded += len(batch)
        totals = predict([prefix for _, prefix in batch]).double()
        totals += torch.tensor([total for total, _ in batch], dtype=torch.float64).to(totals.device).unsqueeze(1)
        ended, row = totals[:, eos].max(0)
        if float(ended) > bound:
            best, log_prob = batch[int(row)][1], float(ended)
            bound = log_prob + MARGIN
        totals[:, [eos, pad]] = -math.inf
        totals[torch.tensor([len(prefix) >= longest for _, prefix in batch])] = -math.inf
        rows, types = (totals > bound).nonzero(as_tuple=True)
        order = totals[rows, types].argsort()  # the best is expanded first
        for parent, token in zip(rows[order].tolist(), types[order].tolist()):
            waiting.append((float(totals[parent, token]), (*batch[parent][1], token)))
    return BestString(best, log_prob, True, expanded)


def string_log_prob(predict: Predictor, string: String, eos: int) -> float:
    """Return log P of a string, with its end symbol."""
    prefixes = [string[:length] for length in range(len(string) + 1)]
    found = [predict(prefixes[start : start + BATCH]).double() for start in range(0, len(prefixes), BATCH)]
    tokens = torch.tensor([*string, eos], device=found[0].device)
    return float(torch.cat(found).gather(1, tokens.unsqueeze(1)).sum())


def sentence_predictor(models: Sequence[Any], source: Tensor, eos: int, pad: int) -> Predictor:
    """Return the predictor of a sentence, given with its end symbol; of an ensemble, the mean of probabilities."""
    tokens, lengths = source.unsqueeze(0), torch.tensor([len(source)], device=source.device)
    encoded = [model.encoder(tokens, src_lengths=lengths) for model in models]

    def predict(prefixes: Sequence[String]) -> Tensor:
        previous = data_utils.collate_tokens([torch.tensor([eos, *prefix]) for prefix in prefixes], pad)
        previous = previous.to(source.device)
        last = torch.tensor([len(prefix) for prefix in prefixes], device=source.device)
        copies = torch.zeros(len(prefixes), dtype=torch.long, device=source.device)
        found = []
        for model, encoder_out in zip(models, encoded):
            each = model.encoder.reorder_encoder_out(encoder_out, copies)
            features, _ = model.decoder.extract_features(previous, encoder_out=each)
            features = features[torch.arange(len(last), device=last.device), last].unsqueeze(1)
            logits = model.decoder.output_layer(features)
            found.append(model.get_normalized_probs((logits, None), log_probs=True)[:, 0])
        return found[0] if len(found) == 1 else torch.stack(found).logsumexp(0) - math.log(len(found))

    return predict
