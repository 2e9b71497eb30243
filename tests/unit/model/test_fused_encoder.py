"""A frozen encoder beside the model's own: formula, draws, search, checkpoints, refusals."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.checkpoint_utils import load_model_ensemble
from fairseq.sequence_generator import SequenceGenerator
from support.checkpoints import checkpoint, load
from support.models import EXAMPLE, PLAIN, PRE_NORM, SIZE, build, incremental_logits, logits, task
from support.searched_models import FEW, sample
from support.trainings import DUMMY, fairseq_train

from deepnmt.checkpoints.grafting import graft
from deepnmt.checkpoints.state import CheckpointState
from deepnmt.checkpoints.trained_model import check_fit, check_whole, model_config
from deepnmt.engines.torch.writer import _placeless
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.fused_encoder import fused, load_frozen
from deepnmt.model.transformer import DLCLTransformerModel
from deepnmt.search.generator import BeamGenerator

FUSED = {"fused_encoder": "none.pt"}  # which a training alone reads
REAL = EXAMPLE["prev_output_tokens"].ne(1)


def second_attentions(model: Any) -> list[Any]:
    return [layer.backward_attn for stack in (model.encoder, model.decoder) for layer in stack.layers]


@pytest.mark.parametrize("more", [{}, PRE_NORM, {"merged_attention": True, "encoder_max_relative_length": 2}])
def test_with_a_projection_of_zeros_it_is_the_plain_model_at_half_scale(more: dict[str, Any]) -> None:
    model, plain = build({**FUSED, **more}), build(more, seed=2)
    with torch.no_grad():
        for attention in second_attentions(model):
            (attention.out_proj.weight.zero_(), attention.out_proj.bias.zero_())
    tensors = {name: tensor for name, tensor in model.state_dict().items() if name in plain.state_dict()}
    plain.load_state_dict(tensors)
    with torch.no_grad():
        for layers, name in ((plain.encoder.layers, "self_attn"), (plain.decoder.layers, "encoder_attn")):
            for layer in layers:
                last = getattr(layer, name).out_proj
                (last.weight.mul_(0.5), last.bias.mul_(0.5))
    torch.testing.assert_close(logits(model, EXAMPLE), logits(plain, EXAMPLE), rtol=0, atol=1e-12)


def test_both_attentions_read_the_same_states_of_the_frozen_encoder() -> None:
    """With the frozen encoder's weights for its own, Att_B of the decoder is a second attention to the same states."""
    model = build({**PLAIN, **FUSED})
    read: list[Any] = []
    for attention in second_attentions(model):
        attention.register_forward_pre_hook(lambda _, args, kwargs: read.append(kwargs["key"]), with_kwargs=True)
    model(**EXAMPLE)
    expected = model.encoder.frozen(EXAMPLE["src_tokens"])["encoder_out"][0]
    assert len(read) == 6
    for states in read:
        torch.testing.assert_close(states, expected, rtol=0, atol=0)


def test_the_frozen_encoder_has_no_dropout_in_training() -> None:
    model = build(FUSED, dropout=0.5, attention_dropout=0.5, activation_dropout=0.5)
    tokens = EXAMPLE["src_tokens"]
    expected = model.encoder.frozen(tokens)["encoder_out"][0]
    model.train()
    torch.testing.assert_close(model.encoder.frozen(tokens)["encoder_out"][0], expected, rtol=0, atol=0)
    assert not torch.equal(*(model.encoder(tokens)["encoder_out"][0] for _ in range(2)))


def test_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Either attention alone with probability p / 2 each, else the mean of both: the expectation is the mean."""
    own, beside, mean = torch.tensor([2.0]), torch.tensor([6.0]), 4.0
    torch.manual_seed(1)
    for drop in (0.0, 0.4, 1.0):
        found = torch.cat([fused(own, beside, drop) for _ in range(4000)])
        shares = [(found == value).double().mean().item() for value in (2.0, 6.0, mean)]
        assert shares == pytest.approx([drop / 2, drop / 2, 1 - drop], abs=0.03)
        assert found.mean().item() == pytest.approx(mean, abs=0.1)
    for uniform, expected in ((0.19, 2.0), (0.21, 6.0), (0.39, 6.0), (0.41, 4.0)):
        monkeypatch.setattr(torch, "rand", lambda _, u=uniform: torch.tensor(u))
        assert fused(own, beside, 0.4).item() == expected


def test_search_and_steps_of_the_decoder() -> None:
    model = build({**FUSED, "decoder_self_attention": "average"})
    torch.testing.assert_close(
        incremental_logits(model, EXAMPLE)[REAL], logits(model, EXAMPLE)[REAL], rtol=0, atol=1e-6
    )
    model = model.float()
    with torch.no_grad():
        found = [kind([model], FEW, beam_size=3, max_len_b=9).generate([model], sample())
                 for kind in (SequenceGenerator, BeamGenerator)]  # fmt: skip
    for stock, own in zip(*found):
        assert [each["tokens"].tolist() for each in own] == [each["tokens"].tolist() for each in stock]


def test_training_leaves_the_frozen_encoder_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["--criterion=label_smoothed_cross_entropy_fused", "--max-update=2"]
    fairseq_train(monkeypatch, DUMMY, tmp_path / "plain", *options)
    start = tmp_path / "plain" / "checkpoint_last.pt"
    options += [f"--fused-encoder={start}", "--fused-drop=0.5", "--encoder-layerdrop=0.2"]
    fairseq_train(monkeypatch, DUMMY, tmp_path / "fused", *options)
    before, after = (load(path)["model"] for path in (start, tmp_path / "fused" / "checkpoint_last.pt"))
    beginning = "encoder.frozen."
    frozen = {name.replace(beginning, "encoder."): t for name, t in after.items() if name.startswith(beginning)}
    assert frozen.keys() == {name for name in before if name.startswith("encoder.")}
    assert all(torch.equal(tensor, before[name]) for name, tensor in frozen.items())
    # Whatever becomes of the file, the model has the weights.
    start.write_bytes(b"")
    (model,), _ = load_model_ensemble([str(tmp_path / "fused" / "checkpoint_last.pt")])
    for name, tensor in model.encoder.frozen.named_parameters():
        assert torch.equal(tensor, before[f"encoder.{name}"]), name
    state = CheckpointState.of(tmp_path / "fused" / "checkpoint_last.pt")
    check_fit(state, config := model_config(state))
    with pytest.raises(UserError, match=r"cfg\.model\.fused_encoder must not be set, but is$"):
        check_whole(state, config)
    with pytest.raises(UserError, match=r"cfg\.model\.fused_encoder must not be set, but is$"):
        graft(state, ["encoder"], 1)
    with pytest.raises(UserError, match=r"^--fused-encoder: checkpoint 'nowhere\.pt' not found$"):
        fairseq_train(monkeypatch, DUMMY, tmp_path / "none", *options[:2], "--fused-encoder=nowhere.pt")
    # A folder of a model has the weights, and so the name alone stays.
    assert _placeless({"fused_encoder": "/home/x/a.pt", "data": "x"}) == {"fused_encoder": "a.pt"}


def test_weights_are_those_of_the_checkpoint(tmp_path: Path) -> None:
    model, path = build(FUSED), tmp_path / "a.pt"
    state = checkpoint(**{f"{stack}_layers": 3 for stack in ("encoder", "decoder")})
    table = state["model"]["encoder.embed_tokens.weight"]
    # Further types at the end, as of a pre-training.
    state["model"] = {**state["model"], "encoder.embed_tokens.weight": torch.cat([table, table[:2]])}
    torch.save(state, path)
    load_frozen(model.encoder.frozen, path)
    for name, tensor in model.encoder.frozen.named_parameters():
        expected = state["model"][f"encoder.{name}"][: len(tensor)] if tensor.dim() else tensor
        torch.testing.assert_close(tensor.float(), expected)
    # A norm after the stack, or a fourth layer, would be left out.
    plain = build({**FUSED, **PLAIN}).encoder.frozen
    for more, surplus in (({"encoder_norm": "pre", "encoder_layers": 3}, "layer_norm"), ({}, "layers.3")):
        torch.save(checkpoint(**PLAIN, **more), path)
        message = rf"must have the encoder of this model, but also has {re.escape(surplus)}\."
        with pytest.raises(UserError, match=message):
            load_frozen(plain, path)
    torch.save(checkpoint(), path)  # of four layers
    with pytest.raises(UserError, match=r"a\.pt: must have the encoder of this model, but also has history\."):
        load_frozen(model.encoder.frozen, path)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"fused_drop": 0.5}, "--fused-drop needs --fused-encoder"),
        ({**FUSED, "fused_drop": 1.5}, "--fused-drop must be at least 0 and at most 1, but is 1.5"),
        (
            {**FUSED, "two_sided": True, "encoder_groups": "transparent"},
            "--fused-encoder cannot be combined with --two-sided\n"
            "--fused-encoder cannot be combined with --encoder-groups transparent",
        ),
        ({**FUSED, "no_cross_attention": True}, "--fused-encoder cannot be combined with --no-cross-attention"),
        ({**FUSED, "decoder_lm_layers": 1}, "--fused-encoder cannot be combined with --decoder-lm-layers"),
        (
            {**FUSED, "decoder_self_attention": "shared"},
            "--fused-encoder cannot be combined with --decoder-self-attention shared",
        ),
        (
            {**FUSED, "initializer": "admin", "residual_scale": "admin"},
            "--fused-encoder cannot be combined with --initializer admin",
        ),
    ],
)
def test_combinations_that_are_refused(options: dict[str, Any], line: str) -> None:
    with pytest.raises(UserError, match=f"^{re.escape(line)}"):
        DLCLTransformerModel.build_model(DLCLTransformerConfig(**{**SIZE, **options}), task())
