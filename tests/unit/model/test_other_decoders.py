"""fairseq's LSTM and convolutional decoders behind this package's encoder: equations, search, refusals, trainings."""

from __future__ import annotations

import dataclasses
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import options as fairseq_options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils
from fairseq.sequence_generator import SequenceGenerator
from fairseq_cli import generate, train
from support.models import EXAMPLE, build, dictionary, incremental_logits, logits, scramble, task
from support.restarts import forget
from support.slow import slow_but
from support.trainings import binarised_text
from torch import Tensor

from deepnmt.errors import UserError
from deepnmt.model.other_decoders import MODELS
from deepnmt.search.generator import BeamGenerator

LSTM, LIGHTCONV = MODELS
SIZE = {"encoder_embed_dim": 16, "encoder_ffn_embed_dim": 24, "encoder_attention_heads": 4, "encoder_layers": 3}
SIZE |= {"decoder_embed_dim": 16, "decoder_layers": 2, "dropout": 0.0}
CONVOLUTIONS = {**SIZE, "decoder_ffn_embed_dim": 24, "decoder_attention_heads": 4, "decoder_kernel_sizes": "3"}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "lstm": (LSTM, SIZE),
    "lstm, other width": (LSTM, {**SIZE, "decoder_embed_dim": 12, "decoder_layers": 1}),
    "lstm, one mean of all layers": (LSTM, {**SIZE, "encoder_groups": "top"}),
    "lstm, shared": (LSTM, {**SIZE, "share_all_embeddings": True}),
    "dynamic": (LIGHTCONV, CONVOLUTIONS),
    "lightweight": (LIGHTCONV, {**CONVOLUTIONS, "decoder_conv_type": "lightweight", "decoder_kernel_sizes": "1,40"}),
    "pre-norm": (LIGHTCONV, {**CONVOLUTIONS, "decoder_normalize_before": True, "encoder_norm": "pre"}),
    "shared": (LIGHTCONV, {**CONVOLUTIONS, "share_decoder_input_output_embed": True}),
}


def other(kind: str, dtype: torch.dtype = torch.float64, **more: Any) -> Any:
    """A random model in evaluation mode."""
    arch, options = KINDS[kind]
    torch.manual_seed(1)
    model = MODELS[arch].build_model(MODELS[arch].OPTIONS(**{**options, **more}), task())
    scramble(model)
    return model.to(dtype).eval()


@pytest.mark.parametrize("kind", KINDS)
def test_incremental_equals_full(kind: str) -> None:
    model = other(kind)
    real = EXAMPLE["prev_output_tokens"].ne(1)
    # fairseq's cross-attention has a softmax in float32.
    torch.testing.assert_close(
        incremental_logits(model, EXAMPLE)[real], logits(model, EXAMPLE)[real], rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("kind", KINDS)
def test_neighbours_and_padding_do_not_matter(kind: str) -> None:
    model = other(kind)
    together = logits(model, EXAMPLE)
    for row in range(2):
        source = EXAMPLE["src_tokens"][row][EXAMPLE["src_tokens"][row].ne(1)]
        target = EXAMPLE["prev_output_tokens"][row][EXAMPLE["prev_output_tokens"][row].ne(1)]
        inputs = {"src_tokens": source[None], "src_lengths": torch.tensor([len(source)])}
        alone = logits(model, {**inputs, "prev_output_tokens": target[None]})[0]
        torch.testing.assert_close(alone, together[row, : len(target)], rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["lstm", "dynamic", "lightweight"])
def test_reordering_equals_decoding_the_reordered_prefix(kind: str) -> None:
    model, order = other(kind), torch.tensor([1, 0, 1])
    tokens, wanted = EXAMPLE["prev_output_tokens"][:, :4], EXAMPLE["prev_output_tokens"][order, :4]
    with torch.no_grad():
        out = model.encoder(EXAMPLE["src_tokens"], src_lengths=EXAMPLE["src_lengths"])
        state: dict[str, Any] = {}
        for length in range(1, 4):
            model.decoder(tokens[:, :length], encoder_out=out, incremental_state=state)
        model.decoder.reorder_incremental_state_scripting(state, order)
        moved = model.encoder.reorder_encoder_out(out, order)
        found = model.decoder(wanted, encoder_out=moved, incremental_state=state)[0][:, -1]
        expected = model.decoder(wanted, encoder_out=moved)[0][:, -1]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def test_the_lstm_is_its_equations() -> None:
    """One layer: cells with input feeding from the state (52), and Luong's attention, whose softmax is in float32."""
    model = other("lstm, other width")
    decoder, inputs = model.decoder, EXAMPLE
    with torch.no_grad():
        out = model.encoder(inputs["src_tokens"], src_lengths=inputs["src_lengths"])
        found = decoder(inputs["prev_output_tokens"], encoder_out=out)[0]
    real = inputs["src_tokens"][1].ne(1)
    states = out["encoder_out"][0][real, 1]  # S x C of the shorter source
    mean = states.mean(0)
    h = decoder.encoder_hidden_proj.weight @ mean + decoder.encoder_hidden_proj.bias
    c = decoder.encoder_cell_proj.weight @ mean + decoder.encoder_cell_proj.bias
    cell, attention, feed = decoder.layers[0], decoder.attention, torch.zeros(12).double()
    for place, word in enumerate(inputs["prev_output_tokens"][1].tolist()):
        x = torch.cat([decoder.embed_tokens.weight[word], feed])
        gates = cell.weight_ih @ x + cell.bias_ih + cell.weight_hh @ h + cell.bias_hh
        i, f, g, o = gates.chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        weights = (states @ (attention.input_proj.weight @ h)).softmax(0)
        feed = (attention.output_proj.weight @ torch.cat([weights @ states, h])).tanh()
        expected = decoder.fc_out.weight @ feed + decoder.fc_out.bias
        torch.testing.assert_close(found[1, place], expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize(("kind", "layer"), [("dynamic", 0), ("lightweight", 1)])
def test_the_convolution_is_its_equation(kind: str, layer: int) -> None:
    """(53), for each head; words before the first one are zero, and keep their weights."""
    conv, heads = other(kind).decoder.layers[layer].conv, 4
    torch.manual_seed(2)
    x = torch.randn(6, 2, 16).double()
    with torch.no_grad():
        found = conv(x)
    expected = torch.zeros_like(x)
    for t in range(6):
        for sentence in range(2):
            if kind == "dynamic":
                scores = (conv.weight_linear.weight @ x[t, sentence]).view(heads, -1)
            else:
                scores = conv.weight.view(heads, -1)
            size = scores.size(1)
            for channel in range(16):
                weights = scores[channel // 4].softmax(0)
                for k in range(1, size + 1):
                    if t - size + k >= 0:
                        expected[t, sentence, channel] += weights[k - 1] * x[t - size + k, sentence, channel]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    "more",
    [
        {"encoder_groups": "none"},
        {"encoder_groups": "0,1,3", "dlcl_granularity": "4", "encoder_norm": "pre"},
        {"encoder_max_relative_length": 2, "relative_positions": "keys", "no_token_positional_embeddings": True},
        {"encoder_share_layers": "0,1,0", "encoder_skip": 0.3, "skip_scale": "inference", "skip_schedule": "constant"},
        {"encoder_norm": "b2t", "encoder_learned_pos": True},
    ],
    ids=str,
)
def test_the_encoder_is_this_packages(more: dict[str, Any]) -> None:
    """Of the same weights, the encoder of a `dlcl_transformer` has the same output."""
    mixed, whole = other("lstm", **more), build({**SIZE, **more})
    whole.encoder.load_state_dict(mixed.encoder.state_dict())
    inputs = {name: EXAMPLE[name] for name in ("src_tokens", "src_lengths")}
    with torch.no_grad():
        found, expected = (each.encoder(**inputs)["encoder_out"][0] for each in (mixed, whole))
    assert torch.equal(found, expected)


@pytest.mark.parametrize("kind", ["lstm", "dynamic"])
def test_beam_search_is_fairseqs(kind: str) -> None:
    model = other(kind, torch.float32)
    sample = {"net_input": {name: EXAMPLE[name] for name in ("src_tokens", "src_lengths")}}
    results = []
    for search in (BeamGenerator, SequenceGenerator):
        with torch.no_grad():
            found = search([model], dictionary(), beam_size=3, max_len_b=8)(sample)
        results.append([[(each["tokens"].tolist(), float(each["score"])) for each in one] for one in found])
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("kind", "more", "message"),
    [
        (
            "dynamic",
            {"decoder_kernel_sizes": "3,0"},
            "--decoder-kernel-sizes must be whole numbers from 1, one or 2 of them, such as 15 or 3,7, but is 3,0",
        ),
        ("dynamic", {"decoder_kernel_sizes": "3,5,7"}, "--decoder-kernel-sizes must be .*, but is 3,5,7"),
        ("dynamic", {"decoder_kernel_sizes": ""}, "--decoder-kernel-sizes must be .*, but is "),
        ("dynamic", {"decoder_conv_type": "x"}, "--decoder-conv-type must be dynamic or lightweight, but is x"),
        ("dynamic", {"decoder_embed_dim": 8}, "--decoder-embed-dim must be --encoder-embed-dim 16, but is 8"),
        ("dynamic", {"decoder_attention_heads": 3}, "--decoder-embed-dim must be divisible by .* 3, but is 16"),
        ("lstm", {"decoder_layers": 0}, "--decoder-layers must be from 1 to 10000, but is 0"),
        ("lstm", {"encoder_norm": "x"}, "--encoder-norm must be one of auto, .*, but is x"),
        ("lstm", {"encoder_groups": "0,9"}, "--encoder-groups: .*"),
        (
            "lstm",
            {"encoder_groups": "transparent"},
            "--encoder-groups transparent cannot .* dlcl_transformer_lstm",
        ),
        ("lstm", {"decoder_embed_dim": 8, "share_all_embeddings": True}, "--share-all-embeddings needs .*"),
    ],
)
def test_options_that_do_not_fit(kind: str, more: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}$"):
        other(kind, **more)


def test_padding_on_the_left_of_targets_is_refused() -> None:
    here = task()
    here.cfg = Namespace(left_pad_target=True)
    for arch, model in MODELS.items():
        options = model.OPTIONS(**(SIZE if arch == LSTM else CONVOLUTIONS))
        with pytest.raises(UserError, match=f"^--left-pad-target cannot be combined with --arch {arch}$"):
            model.build_model(options, here)


def test_options_that_would_change_nothing_are_unknown() -> None:
    names = {arch: {each.name for each in dataclasses.fields(model.OPTIONS)} for arch, model in MODELS.items()}
    for name in ("decoder_groups", "decoder_self_attention", "merged_attention", "initializer", "two_sided"):
        assert not any(name in each for each in names.values())
    own = {f"decoder_{name}" for name in ("ffn_embed_dim", "attention_heads", "normalize_before")}
    assert names[LIGHTCONV] - names[LSTM] == own | {"decoder_conv_type", "decoder_kernel_sizes"}
    assert not names[LSTM] - names[LIGHTCONV]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return binarised_text(tmp_path_factory.mktemp("corpus"))


def run(command: str, *words: str) -> None:
    """fairseq-train or fairseq-generate in this process."""
    parsers = {"train": fairseq_options.get_training_parser, "generate": fairseq_options.get_generation_parser}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [f"fairseq-{command}"])
        args = fairseq_options.parse_args_and_arch(parsers[command](), list(words))
        cfg = convert_namespace_to_omegaconf(args)
        if command == "train":
            forget()
            distributed_utils.call_main(cfg, train.main)
        else:
            generate.main(cfg)


COMMON = ["--encoder-embed-dim=8", "--encoder-ffn-embed-dim=8", "--encoder-layers=2", "--encoder-attention-heads=2"]
COMMON += ["--decoder-embed-dim=8", "--decoder-layers=1", "--share-all-embeddings", "--fast-dropout", "--dropout=0.2"]
COMMON += ["--attention-dropout=0.1", "--activation-dropout=0.1", "--encoder-word-dropout=0.1", "--dlcl-softmax"]
OWN = {
    LSTM: ["--encoder-layerdrop=0.1", "--encoder-groups=none", "--max-source-positions=60"],
    LIGHTCONV: ["--decoder-ffn-embed-dim=8", "--decoder-attention-heads=2", "--decoder-kernel-sizes=3"],
}


@pytest.mark.parametrize("arch", slow_but([LSTM], MODELS))
def test_a_training_and_its_translations(arch: str, data: Path, tmp_path: Path) -> None:
    words = [str(data), "--task=deep_translation", f"--arch={arch}", *COMMON, *OWN[arch], "--cpu", "--num-workers=0"]
    words += ["--optimizer=adam", "--lr=0.01", "--max-epoch=1", "--batch-size=8", f"--save-dir={tmp_path}"]
    words = [word for word in words if arch == LIGHTCONV or word != "--dlcl-softmax"]
    run("train", *words, "--criterion=label_smoothed_cross_entropy_fused", "--no-epoch-checkpoints")
    saved = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)
    assert saved["cfg"]["model"]["_name"] == arch
    assert all(bool(tensor.isfinite().all()) for tensor in saved["model"].values() if isinstance(tensor, Tensor))
    path = f"--path={tmp_path / 'checkpoint_last.pt'}"
    run("generate", str(data), path, "--task=deep_translation", "--cpu", "--beam=2", f"--results-path={tmp_path}")
    lines = (tmp_path / "generate-test.txt").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("H-") for line in lines) == 6
    with pytest.raises(SystemExit, match="2"):
        run("train", *words, "--decoder-groups=1")
