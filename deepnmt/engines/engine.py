"""The translation of subwords into subwords: the protocol of all engines, and the settings of a search."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Protocol, Union

from deepnmt.errors import UserError
from deepnmt.limits import DEFAULT_BEAM, DEFAULT_LENPEN
from deepnmt.options.option_table import SEARCH, SEARCHES, option, range_faults

WEIGHTS = ("float32", "float16", "bfloat16", "int8")
Value = Union[str, float, bool]
# For a language model, in the torch engine alone, beside the options of this package's search.
FUSION = {"lm_path": "MODEL", "lm_weight": "L"}
MORE = {name: row.metavar for name, row in SEARCHES.items()} | FUSION
# Features of a translation that every engine can give.
RERANKING = ("model", "length", "unk")


# Kinds of the settings' values, and their names.
KINDS: Mapping[str, type] = {
    "beam": Integral, "nbest": Integral, "lenpen": Real, "max_len_a": Real, "max_len_b": Integral, "rerank": str,
}  # fmt: skip
IN_WORDS: Mapping[type, str] = {Integral: "a whole number", Real: "a number", str: "text"}


def kind_fault(name: str, value: object) -> str:
    """Return the requirement that the value of a setting violates if its kind is wrong, else an empty text.

    Other names are options of the torch engine, which may be texts, numbers and flags.
    """
    kind = KINDS.get(name)
    if kind is None:
        return "" if isinstance(value, (str, int, float)) else "a plain value"
    return "" if isinstance(value, kind) and not isinstance(value, bool) else IN_WORDS[kind]


@dataclass(frozen=True)
class SearchSettings:
    """The settings of a search for translations.

    The longest translation has `max_len_a` times the subwords of the longest source of its batch, the end symbol
    counted, plus `max_len_b`. `max_len_ratio` among the options in `more` is a multiple of its own source's length.

    Args:
        beam: hypotheses kept in each step
        nbest: number of translations of each sentence to return
        lenpen: exponent of the length in the divisor of scores
        max_len_a: see above
        max_len_b: see above
        rerank: weights by which the beam's translations are chosen, such as "model=0.8,length=0.2"; empty: the scores
        more: for the torch engine alone, by their names: options of `deepnmt.search.options.SearchOptions`, and
            `lm_path` and `lm_weight` of a language model

    Raises:
        UserError: a number is out of range; a line for each
    """

    beam: int = DEFAULT_BEAM
    nbest: int = 1
    lenpen: float = DEFAULT_LENPEN
    max_len_a: float = 0.0
    max_len_b: int = 200
    rerank: str = ""
    more: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if faults := list(self._faults()):
            raise UserError(*faults)

    def _faults(self) -> Iterator[str]:
        wrong = {name: must for name in KINDS if (must := kind_fault(name, getattr(self, name)))}
        if wrong:
            # Their values cannot be compared.
            for name, must in wrong.items():
                yield f"{option(name)} must be {must}, but is {getattr(self, name)!r}"
            return
        values = {name: getattr(self, name) for name in KINDS}
        faults = [f"--{name} {fault}" for name, fault in range_faults(values, SEARCH)]
        yield from faults
        if not faults and self.nbest > self.beam:
            yield f"--nbest must be from 1 to --beam, {self.beam}, but is {self.nbest}"
        if self.max_len_b == 0:
            yield "--max-len-b must be at least 1, but is 0"
        try:
            self.rerank_weights()
        except ValueError:
            yield (
                f"--rerank must be finite weights of {', '.join(RERANKING)} alone, as in model=0.8,length=0.2, "
                f"but is {self.rerank}"
            )

    def rerank_weights(self) -> dict[str, float]:
        """Return the weights by which translations are chosen. Raises `ValueError` for invalid ones."""
        if not self.rerank:
            return {}
        weights = {name: float(text) for name, _, text in (part.partition("=") for part in self.rerank.split(","))}
        if not set(weights) <= set(RERANKING) or not all(map(math.isfinite, weights.values())):
            raise ValueError("no weights")
        return weights

    def without_more(self, engine: str) -> SearchSettings:
        """Return the settings. Raises `UserError` for options that only the torch engine knows."""
        if unknown := [name for name in self.more if name not in MORE]:
            raise UserError(*(f"{name}: no such search option" for name in unknown))
        if self.more:
            names = ", ".join(map(option, self.more))
            raise UserError(f"{names} cannot be combined with --engine {engine}; use --engine torch")
        return self

    def as_record(self) -> dict[str, Value]:
        """Return the settings by their names, for JSON."""
        record = dataclasses.asdict(self)
        if not self.rerank:
            del record["rerank"]
        return {**{name: value for name, value in record.items() if name != "more"}, **self.more}


@dataclass(frozen=True)
class Hypothesis:
    """A translation in subwords.

    Attributes:
        tokens: without the end symbol
        score: log-probability, the end symbol counted, divided by the length penalty
        log_prob: the sum of log-probabilities, as in n-best lists; None: the result of `Engine.score`
    """

    tokens: list[str]
    score: float
    log_prob: float | None = field(default=None, compare=False)


class Engine(Protocol):
    """Translates subwords into subwords; several threads may call one engine.

    Attributes:
        longest: most subwords of a source, the end symbol not counted
    """

    longest: int

    def check(self, settings: SearchSettings) -> None:
        """Raise `UserError` if the engine or its model does not support the settings, with a line for each fault."""

    def search(self, sentences: Sequence[Sequence[str]], settings: SearchSettings) -> list[list[Hypothesis]]:
        """Return the best hypotheses of each sentence, the best first; the sentences are one batch, of any lengths."""

    def score(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        """Return the log-probability of each subword of given targets, and of the end symbol after them.

        They are normalised over all types, also in a model with shortlists.
        """
