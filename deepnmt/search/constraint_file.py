"""Required phrases of each translation, for fairseq's constrained search (Post 2018, NAACL; Hu 2019, NAACL)."""

from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.data import Dictionary
from fairseq.search import LexicallyConstrainedBeamSearch
from fairseq.token_generation_constraints import pack_constraints
from torch import Tensor

from deepnmt.errors import UserError
from deepnmt.text.dictionary import SPECIAL_SYMBOLS
from deepnmt.text.lines import read_lines
from deepnmt.text.subwords import SEPARATOR

# Price of a word that ends with a term but does not begin with it; finite, so that a hypothesis remains.
PENALTY = 10_000.0


class WholeWordConstraints(LexicallyConstrainedBeamSearch):  # type: ignore[misc]
    """fairseq's search for constraints in any order, which counts a term as met by the end of a longer word."""

    def __init__(self, dictionary: Dictionary) -> None:
        super().__init__(dictionary, "unordered")
        continued = [symbol.endswith(SEPARATOR) for symbol in dictionary.symbols]
        self.register_buffer("continued", torch.tensor(continued), persistent=False)

    def step(
        self,
        step: int,
        lprobs: Tensor,
        scores: Optional[Tensor],
        prev_output_tokens: Optional[Tensor] = None,
        original_batch_idxs: Optional[Tensor] = None,
    ) -> Any:
        """Choose candidates, B x 2K, of log-probabilities, B x K x V."""
        if step > 0 and prev_output_tokens is not None and self.constraint_states:
            within = self.continued.to(lprobs.device)[prev_output_tokens[:, -1]].view(lprobs.shape[:2])
            for sentence, place in within.nonzero().tolist():
                state = self.constraint_states[sentence][place]
                begun = set() if state.is_root else state.node.next_tokens()
                starts = state.root.next_tokens() - begun
                lprobs[sentence, place, list(starts)] -= PENALTY
        return super().step(step, lprobs, scores, prev_output_tokens, original_batch_idxs)


def read_constraints(path: Path, dictionary: Dictionary, sentences: int) -> Tensor:
    """Return the constraints of all sentences of a data set as fairseq packs them.

    The file has one line per sentence: constraints in subwords, separated by tabs.

    Raises:
        UserError: a subword is not in the dictionary, or the numbers of lines and sentences differ
    """
    packed: list[list[Tensor]] = []
    for number, line in enumerate(read_lines(path), start=1):
        constraints = [each.split() for each in line.rstrip("\n").split("\t") if each.strip()]
        for piece in (piece for constraint in constraints for piece in constraint):
            if dictionary.index(piece) == dictionary.unk() or piece in SPECIAL_SYMBOLS:
                raise UserError(f"{path}:{number}: must have subwords of the dictionary alone, but has '{piece}'")
        packed.append([torch.tensor([dictionary.index(piece) for piece in each]) for each in constraints])
    if len(packed) != sentences:
        raise UserError(f"{path}: must have a line for each of the {sentences} sentences, but has {len(packed)}")
    constraints_of_all: Tensor = pack_constraints(packed)
    return constraints_of_all
