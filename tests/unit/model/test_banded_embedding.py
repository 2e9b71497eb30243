"""Source embeddings in bands: against fairseq's `AdaptiveInput` and the formula, sizes, and their place in a model."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from fairseq.modules import AdaptiveInput
from support.checkpoints import checkpoint, model_of
from support.models import EXAMPLE, SIZE, build, logits, task

from deepnmt.checkpoints.grafting import graft
from deepnmt.checkpoints.grow import Growth, grow
from deepnmt.checkpoints.state import CheckpointState
from deepnmt.engines.ctranslate2.options import SUPPORT as CTRANSLATE2
from deepnmt.engines.onnx.options import SUPPORT as ONNX
from deepnmt.engines.torch.options import SUPPORT as TORCH
from deepnmt.errors import UserError
from deepnmt.model.banded_embedding import BandedEmbedding
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel

BANDS = {"encoder_embedding_cutoffs": "10,16", "embedding_factor": 2}


def test_values_are_those_of_fairseqs_module() -> None:
    own, stock = BandedEmbedding(24, 16, 1, (10, 16), 2), AdaptiveInput(24, 1, 16, 2, 16, [10, 16])
    with torch.no_grad():
        for (table, projection), one, other in zip(stock.embeddings, own.tables, own.projections):
            (one.weight.copy_(table.weight), other.weight.copy_(projection.weight))
    tokens = torch.arange(24).view(2, 12).flip(1)
    torch.testing.assert_close(own(tokens), stock(tokens), rtol=0, atol=0)
    widths = [table.weight.shape for table in own.tables]
    assert widths == [(10, 16), (6, 8), (8, 4)]
    assert [projection.weight.shape for projection in own.projections] == [(16, 16), (16, 8), (16, 4)]


def test_one_band_is_the_table_up_to_a_projection() -> None:
    own = BandedEmbedding(20, 8, 1, (), 4).double()
    table = torch.nn.Embedding(20, 8, 1).double()
    with torch.no_grad():
        table.weight.copy_(own.tables[0].weight)
    tokens = torch.arange(20)
    torch.testing.assert_close(own(tokens), table(tokens) @ own.projections[0].weight.t())


def test_initial_values() -> None:
    own = BandedEmbedding(9000, 64, 1, (3000, 6000), 4)
    vectors = own(torch.arange(9000)).detach()
    assert vectors[1].abs().max() == 0
    # Other bands have a word in the place of padding.
    assert vectors[3001].abs().max() > 0
    for start in (0, 3000, 6000):
        assert vectors[start : start + 3000].std() == pytest.approx(64**-0.5, rel=0.1)


@pytest.mark.parametrize("more", [{}, {"two_sided": True, "initializer": "deepnorm", "residual_scale": "deepnorm"}])
def test_model_trains_and_grows(more: dict[str, Any]) -> None:
    model = build({**BANDS, "encoder_word_dropout": 0.1, **more}).train()
    (model(**EXAMPLE)[0] ** 2).sum().backward()
    assert all(parameter.grad is not None for parameter in model.encoder.embed_tokens.parameters())
    if more:
        return
    state = checkpoint(**BANDS)
    grown, _ = grow(state, Growth({"encoder": 8}))
    assert logits(model_of(grown), EXAMPLE).isfinite().all()
    grafted, lines = graft(CheckpointState(state), ["encoder"], 1)
    name = "encoder.embed_tokens.tables.1.weight"
    assert torch.equal(grafted.tensors()[name], state["model"][name])
    assert "copied encoder.embed_tokens (6 parameters)" in lines


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"encoder_embedding_cutoffs": "5,3"}, "--encoder-embedding-cutoffs must be none, or whole numbers that inc"),
        ({"encoder_embedding_cutoffs": "10,99"}, "--encoder-embedding-cutoffs must be below the 24 types, but is 10,"),
        ({"embedding_factor": 2}, "--embedding-factor needs --encoder-embedding-cutoffs"),
        ({**BANDS, "embedding_factor": 5}, "--embedding-factor must be at most 4 for 3 bands of --encoder-embed-dim"),
        ({**BANDS, "embedding_factor": 0}, "--embedding-factor must be at least 1"),
        (
            {**BANDS, "share_all_embeddings": True, "encoder_embed_path": "x", "freeze_embeddings": "both"},
            "--encoder-embedding-cutoffs cannot be combined with embeddings that source and target share\n"
            "--encoder-embedding-cutoffs cannot be combined with --encoder-embed-path\n"
            "--encoder-embedding-cutoffs cannot be combined with --freeze-embeddings both",
        ),
        ({**BANDS, "initializer": "t-fixup"}, "--encoder-embedding-cutoffs cannot be combined with --initializer"),
    ],
)  # fmt: skip
def test_combinations_that_are_refused(options: dict[str, Any], line: str) -> None:
    with pytest.raises(UserError, match=f"^{re.escape(line)}"):
        DLCLTransformerModel.build_model(DLCLTransformerConfig(**{**SIZE, **options}), task())


def test_engines_with_graphs_refuse_it() -> None:
    for support in (ONNX, CTRANSLATE2):
        faults = list(support.faults(DLCLTransformerConfig(**{**SIZE, **BANDS}), {}))
        assert "--encoder-embedding-cutoffs 10,16: use --engine torch" in faults
        assert not any("factor" in fault for fault in faults)
    assert any(TORCH.faults(DLCLTransformerConfig(**BANDS), {}))  # which is left to fairseq's model
