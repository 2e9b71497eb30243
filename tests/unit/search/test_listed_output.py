"""A step with shortlists against a softmax in float64 over each sentence's own list."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from deepnmt.kernels.products import obstacle
from deepnmt.search import reduced
from deepnmt.search.incremental.listed_output import ListedOutput
from deepnmt.search.reduced import reduce_products
from deepnmt.search.shortlist import Shortlist

TYPES, CHANNELS, HYPOTHESES = 500, 16, 3
LISTS = Shortlist(np.arange(4, 40), np.stack([np.arange(9) * 7 + 30 * row for row in range(12)]), TYPES)
SOURCE = torch.tensor([[4, 5, 2], [6, 2, 1], [0, 2, 1], [11, 10, 9]])


def on_list(row: int) -> list[int]:
    """The list of a source, in the order of the types."""
    numbers = SOURCE[row].tolist()
    return sorted({*range(40), *(place * 7 + 30 * number for number in numbers for place in range(9))})


def as_int8(x: Tensor) -> Tensor:
    scale = x.abs().amax(1, keepdim=True) / 127
    return (x / scale).round() * scale


ROUNDED = {"float32": lambda x: x, "bfloat16": lambda x: x.bfloat16().float(), "int8": as_int8}


def net_of(kind: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    if obstacle(kind, torch.device("cpu")):
        pytest.skip("the processor has no such products")
    monkeypatch.setattr(reduced, "FEW_WEIGHTS", 1)
    torch.manual_seed(seed)
    net = nn.Module()
    net.decoder = nn.Module()
    net.decoder.output_projection = nn.Linear(CHANNELS, TYPES, bias=False)
    nn.init.normal_(net.decoder.output_projection.weight)
    reduce_products(net, kind)
    return net


@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int8"])
def test_the_softmax_is_over_the_sentences_own_list(
    kind: str, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    nets = [net_of(kind, seed, monkeypatch) for seed in (1, 2)]
    output = ListedOutput(LISTS, SOURCE, nets, temperature)
    assert output.width % 64 == 0
    features = torch.randn(len(SOURCE), HYPOTHESES, CHANNELS)
    places = [0, 1, 2, 3]
    # Sums in float32 may be rounded to the neighbouring number of bfloat16.
    within = 0.07 if kind == "bfloat16" else 2e-5

    def check(rows: list[int]) -> None:
        given = features[rows]
        columns = torch.arange(output.width).expand(len(rows), -1)
        names = output.types_of(columns)
        for net in nets:
            weight = ROUNDED[kind](net.decoder.output_projection.weight.detach()).double()
            found = output(net, given.flatten(0, 1), Namespace()).view(len(rows), HYPOTHESES, -1)
            assert found.dtype == torch.float32
            for place, row in enumerate(rows):
                on = on_list(row)
                logits = ROUNDED[kind](given[place]).double() @ weight[on].t()
                if kind == "bfloat16":
                    logits = logits.bfloat16().double()
                finite = found[place, 0] > -torch.inf
                assert sorted(names[place][finite].tolist()) == on
                # The special symbols stand at their own numbers.
                assert names[place, :4].tolist() == [0, 1, 2, 3]
                order = names[place][finite].argsort()
                torch.testing.assert_close(
                    found[place][:, finite][:, order].double(),
                    (logits / temperature).log_softmax(-1),
                    atol=within,
                    rtol=0,
                )

    check(places)
    # The first sentence is finished: the last one takes its place.
    with torch.inference_mode():
        output.keep(3, torch.tensor([0]), torch.tensor([3]))
        check([3, 1, 2])
        output.keep(1, torch.tensor([0]), torch.tensor([2]))
        check([2])
