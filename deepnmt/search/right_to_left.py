"""Models that write their translations from right to left (Liu 2016, NAACL, N16-1046).

The words of a target are reversed on reading, and the words of a hypothesis are turned back on output. The end symbol
and padding keep their places, so reversing twice changes nothing.

Shapes: T target positions; S source positions; B sentences.
"""

from collections.abc import Iterator
from typing import Any

from fairseq.data import BaseWrapperDataset, Dictionary
from torch import Tensor

from deepnmt.kernels.reversal import reversal, reversed_words
from deepnmt.search.hypotheses import Hypothesis

# fairseq's options of generation that speak of places in the translation, with the values that do not ask for them.
NEEDS_LEFT_TO_RIGHT: dict[str, tuple[object, ...]] = {
    "prefix_size": (0,),
    "constraints": (None, False),
    "print_alignment": (None, False),
    "lm_path": (None,),
}


class ReversedTargets(BaseWrapperDataset):  # type: ignore[misc]
    """The targets of a data set, T each, reversed."""

    def __init__(self, dataset: Any, dictionary: Dictionary) -> None:
        super().__init__(dataset)
        self.dictionary = dictionary

    def __getitem__(self, index: int) -> Tensor:
        """Return a target."""
        return turned_targets(super().__getitem__(index), self.dictionary)


def turned_targets(tokens: Tensor, dictionary: Dictionary) -> Tensor:
    """Return a sentence, T, or a batch of sentences, B x T, with the words in reverse order."""
    return reversed_words(tokens, dictionary.eos(), dictionary.pad())


def turned_hypothesis(hypothesis: Hypothesis, dictionary: Dictionary, axis: int = 1) -> Hypothesis:
    """Return a hypothesis with its words, their scores and their attention in the opposite order.

    The words are on this axis of the attention, S x T, but T x S where fairseq scores references.
    """
    order = reversal(hypothesis["tokens"], dictionary.eos(), dictionary.pad())
    turned = {name: hypothesis[name][order] for name in ("tokens", "positional_scores")}
    attention = hypothesis.get("attention")
    if attention is not None and attention.numel():
        turned["attention"] = attention.index_select(axis, order)
    return {**hypothesis, **turned}


def option_faults(args: Any) -> Iterator[str]:
    """Yield the faults in fairseq's options of a search from right to left; missing options have their defaults."""
    for name, values in NEEDS_LEFT_TO_RIGHT.items():
        if getattr(args, name, values[0]) not in values:
            yield f"--{name.replace('_', '-')}: must not be given for a model that translates from right to left"
