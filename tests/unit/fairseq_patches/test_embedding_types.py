"""Files of embeddings, whose lines are found by the names of types."""

from __future__ import annotations

import pytest
import torch
from fairseq import utils
from fairseq.data import Dictionary
from torch import nn

import deepnmt
from deepnmt.errors import UserError

deepnmt.register()


def test_vectors_are_found_by_name() -> None:
    dictionary, table = Dictionary(), nn.Embedding(6, 2)
    for type_ in ("a", "b"):
        dictionary.add_symbol(type_)
    before = table.weight.detach().clone()
    message = r"cannot be used with this dictionary: it has no vector for any of its 2 types$"
    with pytest.raises(UserError, match=message):
        utils.load_embedding({"c": torch.ones(2), "</s>": torch.ones(2)}, dictionary, table)
    assert torch.equal(table.weight, before)
    utils.load_embedding({"b": torch.tensor([3.0, 4.0]), "c": torch.ones(2)}, dictionary, table)
    assert table.weight[5].tolist() == [3.0, 4.0]
    assert torch.equal(table.weight[:5], before[:5])
