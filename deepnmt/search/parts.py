"""The parts of a search, as requested by the options.

Shapes: B sentences of a batch; S source positions.
"""

from dataclasses import dataclass
from typing import Optional

import torch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from deepnmt.errors import UserError
from deepnmt.search.constraints import (
    BY_OPTION,
    Forbidden,
    LengthRange,
    LengthRatio,
    SentenceLengthRange,
    StepRule,
    UnknownPenalty,
)
from deepnmt.search.coverage import Coverage, CoveragePenalty, FloorCoverage, GnmtCoverage
from deepnmt.search.ensemble import Ensemble, LogLinear, MeanProbability, WeightedProbability
from deepnmt.search.options import SearchOptions
from deepnmt.search.repetition import NoRepeats
from deepnmt.search.scores import GnmtPenalty, HypothesisScore, LengthPenalty, LogPenalty, NoLengthPenalty, PowerPenalty
from deepnmt.search.stop_rules import BeamFinished, BestEnds, NothingBetter, PruneGap, StopRule


@dataclass(frozen=True)
class SearchParts:
    """The parts of one batch's search.

    Attributes:
        score: of finished hypotheses
        rules: on the next token
        stop: decides which sentences are finished
        longest: greatest number of tokens before any hypothesis's end symbol
        longest_of: the same limit for each sentence, B; None: `longest` for all
        coverage: of source words; None: the score needs no coverage
    """

    score: HypothesisScore
    rules: list[StepRule]
    stop: StopRule
    longest: int
    longest_of: Optional[Tensor]
    coverage: Optional[Coverage]


def search_parts(generator: SequenceGenerator, options: SearchOptions, source: Tensor) -> SearchParts:
    """Return the parts for a batch of sources, B x S, by the options of fairseq's generator and of the package."""
    longest = longest_translation(generator, source)
    words = source.ne(generator.pad) & source.ne(generator.eos)
    lengths, longest_of = LengthRange(generator.eos, generator.min_len, longest), None
    length_rule: StepRule = lengths
    bounds = _bounds(generator, options, lengths, words.sum(1).tolist())
    if bounds:
        length_rule = by_sentence = SentenceLengthRange(generator.eos, bounds, source.device)
        longest, longest_of = max(bound for _, bound in bounds), by_sentence.longest
    rules: list[StepRule] = [Forbidden(generator.pad)]
    if generator.unk_penalty:
        rules.append(UnknownPenalty(generator.unk, generator.unk_penalty))
    rules.append(length_rule)
    rules += [make(value) for name, make in BY_OPTION.items() if (value := getattr(options, name))]
    if generator.token_indices_to_suppress is not None:
        rules.append(Forbidden(generator.token_indices_to_suppress))
    if generator.repeat_ngram_blocker is not None:
        # The last rule, since it asks whether another token may follow.
        rules.append(NoRepeats(generator.repeat_ngram_blocker.no_repeat_ngram_size))
    score = HypothesisScore(_length_penalty(generator, options), _coverage_penalty(options))
    coverage = Coverage(words, options.coverage_in_beam) if score.coverage_penalty is not None else None
    each = [longest] * len(source) if longest_of is None else longest_of.tolist()
    stop = _stop_rule(generator, options, score.length_penalty, each, source.device)
    return SearchParts(score, rules, stop, longest, longest_of, coverage)


def _bounds(
    generator: SequenceGenerator, options: SearchOptions, allowed: LengthRange, words: list[int]
) -> list[tuple[int, int]]:
    """Return the shortest and longest translation for each number of source words, or nothing: one range for all.

    fairseq's --match-source-len counts the end of the source as a word of it.
    """
    if generator.match_source_len:
        if max(words) >= generator.max_len:
            raise UserError(
                f"--match-source-len: a source of {max(words)} words is longer than a translation may be, "
                f"{generator.max_len - 1}"
            )
        return [(count, count) for count in words]
    if options.min_len_ratio is None and options.max_len_ratio is None:
        return []
    ratio = LengthRatio(options.min_len_ratio, options.max_len_ratio)
    return [ratio.bounds(count, allowed) for count in words]


def longest_translation(generator: SequenceGenerator, source: Tensor) -> int:
    """Return the greatest length of translations of a batch, B x S. Raises `UserError` if --min-len exceeds it.

    --match-source-len replaces both.
    """
    longest: int = min(int(generator.max_len_a * source.size(1) + generator.max_len_b), generator.max_len - 1)
    if generator.min_len > longest and not generator.match_source_len:
        raise UserError(
            f"--min-len must be at most the tokens that a translation may have (--max-len-a, --max-len-b), {longest} "
            f"for a source of {source.size(1)}, but is {generator.min_len}"
        )
    return longest


def check_constraints(constraints: Optional[Tensor], longest: int) -> None:
    """Raise `UserError` if the constraints of a sentence are longer than its translation may be.

    They are B x N, packed as fairseq does: their number, then the tokens of each and a 0.
    """
    tokens = 0 if constraints is None else int(constraints[:, 1:].ne(0).sum(1).max())
    if tokens > longest:
        raise UserError(
            "--constraints must have at most the tokens that a translation may have (--max-len-a, --max-len-b), "
            f"{longest}, but a sentence has {tokens}"
        )


def ensemble(options: SearchOptions, models: int) -> Ensemble:
    """Return the rule that combines predictions."""
    weights = options.weights()
    if options.ensemble_rule == "log-linear":
        return LogLinear(weights or [1 / models] * models)
    return MeanProbability() if weights is None else WeightedProbability(weights)


def _length_penalty(generator: SequenceGenerator, options: SearchOptions) -> LengthPenalty:
    if not generator.normalize_scores:
        return NoLengthPenalty()
    if options.length_penalty == "gnmt":
        return GnmtPenalty(generator.len_penalty)
    return LogPenalty(generator.len_penalty) if options.length_penalty == "log" else PowerPenalty(generator.len_penalty)


def _coverage_penalty(options: SearchOptions) -> Optional[CoveragePenalty]:
    if options.coverage == "none":
        return None
    assert options.coverage_weight is not None
    if options.coverage == "gnmt":
        return GnmtCoverage(options.coverage_weight)
    assert options.coverage_floor is not None
    return FloorCoverage(options.coverage_weight, options.coverage_floor)


def _stop_rule(
    generator: SequenceGenerator,
    options: SearchOptions,
    penalty: LengthPenalty,
    lengths: list[int],
    device: torch.device,
) -> StopRule:
    stop: StopRule
    if options.beam_stop == "optimal":
        # Scores count the end symbol.
        stop = NothingBetter(torch.tensor([penalty(length + 1) for length in lengths], device=device))
    else:
        stop = BestEnds() if options.beam_stop == "first" else BeamFinished(generator.beam_size)
    return stop if options.prune_gap is None else PruneGap(options.prune_gap, stop)
