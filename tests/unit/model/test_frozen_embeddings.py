"""`--freeze-embeddings`: tables as in a file, which a training leaves alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.checkpoints import load
from support.models import EXAMPLE, SIZE, build, dictionary, task
from support.slow import slow_but
from support.trainings import DUMMY, fairseq_train

from deepnmt.checkpoints.grow import Growth, grow
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel

TABLES = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "decoder.output_projection.weight"}
LOSSES = ("fused", "simcut")
KINDS: list[tuple[dict[str, Any], set[str]]] = [
    ({"freeze_embeddings": "source"}, {"encoder.embed_tokens.weight"}),
    ({"freeze_embeddings": "target"}, {"decoder.embed_tokens.weight"}),
    ({"freeze_embeddings": "both"}, {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}),
    (
        {"freeze_embeddings": "target", "share_decoder_input_output_embed": True},
        {"decoder.embed_tokens.weight", "decoder.output_projection.weight"},
    ),
    ({"freeze_embeddings": "both", "share_all_embeddings": True}, TABLES),
]


@pytest.mark.parametrize(("options", "frozen"), KINDS)
def test_frozen_tables_alone_have_no_gradients(options: dict[str, Any], frozen: set[str]) -> None:
    model = build({"encoder_word_dropout": 0.1, **options}).train()
    (model(**EXAMPLE)[0] ** 2).sum().backward()
    parameters = model.named_parameters(remove_duplicate=False)
    assert {name for name, parameter in parameters if parameter.grad is None} == frozen


def test_rows_of_the_file_stay_in_training_and_others_as_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = dictionary()
    path = tmp_path / "source.vec"
    rows = {word: torch.arange(16) * 0.01 + number for number, word in enumerate(words.symbols[4:9])}
    lines = [f"{word} {' '.join(map(str, row.tolist()))}" for word, row in rows.items()]
    path.write_text("\n".join([f"{len(rows)} 16", *lines]) + "\n")
    built = []
    for options in ({}, {"encoder_embed_path": str(path), "freeze_embeddings": "source"}):
        torch.manual_seed(1)
        config = DLCLTransformerConfig(**{**SIZE, **options})
        built.append(DLCLTransformerModel.build_model(config, task(words)).encoder.embed_tokens.weight)
    for number, word in enumerate(words.symbols):
        assert torch.equal(built[1][number], rows.get(word, built[0][number].detach())), word


@pytest.mark.parametrize(
    "criterion", slow_but(["label_smoothed_cross_entropy_fused"], [f"label_smoothed_cross_entropy_{c}" for c in LOSSES])
)
def test_training_and_growth(criterion: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = [f"--criterion={criterion}", "--freeze-embeddings=both", "--save-interval-updates=1"]
    fairseq_train(monkeypatch, DUMMY, tmp_path, *options, "--max-update=3")
    first, last = (load(path) for path in (tmp_path / "checkpoint_1_1.pt", tmp_path / "checkpoint_last.pt"))
    for name, tensor in first["model"].items():
        assert torch.equal(tensor, last["model"][name]) == (name in TABLES or tensor.numel() == 1), name
    # The optimizer knows the other parameters alone.
    grown, _ = grow(last, Growth({"encoder": 6}), carry_moments=True)
    assert len(grown["last_optimizer_state"]["param_groups"][0]["params"]) == len(grown["model"]) - 3 - len(
        [name for name in grown["model"] if name.endswith(("version", "_float_tensor"))]
    )


@pytest.mark.parametrize(("table", "frozen"), [("share_all_embeddings", "source"), ("merge_src_tgt_embed", "target")])
def test_one_table_is_frozen_whole(table: str, frozen: str) -> None:
    config = DLCLTransformerConfig(**{**SIZE, table: True, "freeze_embeddings": frozen})
    with pytest.raises(UserError, match=rf"^--freeze-embeddings must be both with --{table.replace('_', '-')}, but is"):
        DLCLTransformerModel.build_model(config, task())
