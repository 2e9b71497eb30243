"""`--encoder-freeze` and `--decoder-freeze`: which parameters are trained, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.models import EXAMPLE, PLAIN, SIZE, build, task

from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.frozen_layers import freeze_text, frozen_layers, frozen_names
from deepnmt.model.other_decoders import MODELS
from deepnmt.model.transformer import DLCLTransformerModel

FROZEN = {"encoder_freeze": "1,3", "decoder_freeze": "2"}
KINDS: dict[str, dict[str, Any]] = {
    "dlcl": {},
    "plain": {"encoder_groups": "none", "decoder_groups": "none"},
    "relative, pre-norm": {"encoder_max_relative_length": 2, "encoder_norm": "pre", "decoder_norm": "pre"},
    "ssru": {"decoder_self_attention": "ssru"},
    "merged": {"merged_attention": True},
    "recomputed": {"checkpoint_activations": True},
    "skipped": {"encoder_skip": 0.1},
    "shared": {"encoder_share_layers": "0,1,0"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_frozen_layers_have_no_gradients_and_others_the_same_ones(kind: str) -> None:
    plain, frozen = build(KINDS[kind]).train(), build({**FROZEN, **KINDS[kind]}).train()
    for model in (plain, frozen):
        torch.manual_seed(1)
        (model(**EXAMPLE)[0] ** 2).sum().backward()
    # Of shared layers, the first place alone has a name.
    begins = "encoder.layers.0.", "encoder.layers.2.", "decoder.layers.1."
    for (name, one), other in zip(plain.named_parameters(), frozen.parameters()):
        assert other.requires_grad is not name.startswith(begins)
        if other.requires_grad:
            torch.testing.assert_close(one.grad, other.grad)
        else:
            assert other.grad is None


def test_layers_of_a_two_sided_model() -> None:
    model = build(two_sided=True, decoder_freeze="1")
    frozen = [name for name, parameter in model.named_parameters() if not parameter.requires_grad]
    stacks = {name.partition("layers.")[0] for name in frozen}
    assert stacks == {"decoder.", "encoder.backward_decoder."}


@pytest.mark.parametrize("model", MODELS.values())
def test_layers_of_an_encoder_with_another_decoder(model: Any) -> None:
    size = {"encoder_embed_dim": 16, "encoder_layers": 3, "decoder_embed_dim": 16, "decoder_layers": 1}
    built = model.build_model(model.OPTIONS(**size, encoder_freeze="1,3"), task())
    frozen = {name.rpartition("layers.")[2][0] for name, each in built.named_parameters() if not each.requires_grad}
    assert frozen == {"0", "2"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoder_freeze": "0"}, r"^--encoder-freeze must name layers from 1 to 3, but names 0$"),
        ({"decoder_freeze": "1,4"}, r"^--decoder-freeze must name layers from 1 to 3, but names 4$"),
        (
            {"encoder_freeze": "1-2"},
            r"^--encoder-freeze must be 'none' or layers such as 1,2,3, counted from 1, but is '1-2'$",
        ),
        (
            {"encoder_freeze": "1", "encoder_layers_to_keep": "0,1", "encoder_groups": "none"},
            r"^--encoder-freeze cannot be combined with --encoder-layers-to-keep$",
        ),
        (
            {"encoder_freeze": "1,3", "encoder_share_layers": "0,0,1"},
            r"^--encoder-freeze must also name 2, which has frozen weights by --encoder-share-layers$",
        ),
    ],
)
def test_other_layers_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        DLCLTransformerModel.build_model(DLCLTransformerConfig(**{**SIZE, **options}), task())


def test_text_and_names() -> None:
    assert frozen_layers("none", 3) == ()
    assert frozen_layers(freeze_text([0, 2]), 3) == (0, 2)
    assert freeze_text([]) == "none"
    names = ["encoder.layers.0.fc1.weight", "encoder.layers.10.fc1.weight", "decoder.layers.0.fc1.weight"]
    assert frozen_names(names, {"encoder_freeze": "1"}) == names[:1]
    assert frozen_names(names, {}) == []


def test_something_is_left_to_train() -> None:
    everything = {**PLAIN, "encoder_freeze": "1,2,3", "decoder_freeze": "1,2,3", "share_all_embeddings": True}
    message = r"^--encoder-freeze, --decoder-freeze and --freeze-embeddings must leave something to train$"
    with pytest.raises(UserError, match=message):
        build({**everything, "freeze_embeddings": "both"})
    # The norm after a stack with pre-norm, or the table.
    build({**everything, "freeze_embeddings": "both", "decoder_norm": "pre"})
    build(everything)
