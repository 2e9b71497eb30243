"""deepnmt import: logits of imported models against a slow forward pass of the published layout."""

from __future__ import annotations

import functools
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq_cli import generate
from support.checkpoints import load, run_command
from support.models import batch, incremental_logits, logits
from support.published_model import Layout, SlowModel, dictionaries, known_state, published_state, saved
from support.trainings import binarised_text, fairseq_train

from deepnmt.checkpoints.grow import Growth, grow
from deepnmt.checkpoints.importing.published_names import names_here

command = functools.partial(run_command, "import")
TYPES = (14, 17)
LANGUAGES = ["--source-lang=a", "--target-lang=b"]
NORMS = ["--encoder-norm=post", "--decoder-norm=post"]
# Each with what has to be given, and what is found.
LAYOUTS: dict[str, tuple[Layout, list[str], dict[str, Any]]] = {
    "dlcl-post": (
        Layout(relative_values=True),
        [*NORMS, "--positions=sinusoidal"],
        {"encoder_norm": "post", "relative_positions": "keys-values", "encoder_groups": "1", "decoder_groups": "1"},
    ),
    "wang-pre-interleaved": (
        Layout(
            pre=True, slices=4, norms_from_one=True, relative=3, relative_name="relative_positions_{}.weight",
            output="embed_out", shared=False,
        ),
        ["--positions=sinusoidal"],
        {"encoder_norm": "pre", "dlcl_granularity": "vector", "relative_positions": "keys",
         "encoder_max_relative_length": 3},
    ),
    "sdt-groups": (
        Layout(pre=True, fused=False, numbered_norms=False, groups=(2, 0), slices=8, relative=0, shared=False),
        ["--encoder-attention-heads=2", "--decoder-attention-heads=2", "--positions=sinusoidal"],
        {"encoder_groups": "2", "decoder_groups": "none", "dlcl_granularity": "vector", "decoder_norm": "pre",
         "share_decoder_input_output_embed": True, "share_all_embeddings": False},
    ),
    "wang-post-interleaved-one-group": (
        Layout(norms_from_one=True, slices=2, softmax=True, relative=0, groups=(1, 2)),
        [*NORMS, "--encoder-attention-heads=2", "--decoder-attention-heads=2", "--positions=sinusoidal",
         "--dlcl-softmax"],
        {"dlcl_granularity": "vector", "dlcl_softmax": True, "encoder_groups": "1", "decoder_groups": "2"},
    ),
    "wang-window-softmax-learned": (
        Layout(learned=12, window=2, softmax=True, slices=1, norms_from_one=True, output="output_projection.weight",
               shared=False),
        [*NORMS, "--dlcl-window=2", "--dlcl-softmax"],
        {"dlcl_window": 2, "dlcl_softmax": True, "max_source_positions": 10, "encoder_learned_pos": True,
         "dlcl_granularity": "scalar"},
    ),
    "plain": (Layout(groups=(0, 0)), [*NORMS, "--positions=sinusoidal"], {"encoder_groups": "none"}),
}  # fmt: skip


def types_of(layout: Layout) -> tuple[int, int]:
    return (TYPES[0], TYPES[0]) if layout.shared else TYPES


def model_of(path: Path, data: Path) -> Any:
    """What fairseq's own loader makes of a checkpoint, in double precision."""
    overrides = {"data": str(data)}
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)], arg_overrides=overrides)
    return model.double().eval()


@pytest.mark.parametrize(("layout", "words", "found"), LAYOUTS.values(), ids=LAYOUTS)
def test_imported_model_computes_what_the_published_one_does(
    layout: Layout, words: list[str], found: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, state = dictionaries(tmp_path / "data", types_of(layout)), published_state(layout, types_of(layout))
    command(saved(tmp_path / "in.pt", state), tmp_path / "out.pt", f"--data={data}", *LANGUAGES, *words)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3] == f"tensors read: {len(state)}"
    assert lines[-2].startswith(f"to train it further: --restore-file {tmp_path / 'out.pt'} --arch=dlcl_transformer ")
    assert lines[-1] == f"{tmp_path / 'out.pt'} is ready"
    options = load(tmp_path / "out.pt")["cfg"]["model"]
    assert {name: options[name] for name in found} == found
    size = {"layers": layout.layers[0], "embed_dim": 8, "ffn_embed_dim": 12, "attention_heads": 2}
    assert {name: options[f"encoder_{name}"] for name in size} == size

    sentences = ([[5, 6, 7, 8, 9], [10, 11]], [[6, 7, 8], [13, 4, 5, 6, 7]])
    inputs, model = batch(*sentences), model_of(tmp_path / "out.pt", data)
    full, stepwise, slow = logits(model, inputs), incremental_logits(model, inputs), SlowModel(layout, state)
    for number, (source, target) in enumerate(zip(*sentences)):
        expected = slow.logits([*source, 2], [2, *target])
        for actual in (full, stepwise):
            torch.testing.assert_close(actual[number, : len(expected)], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_imported_model_translates_and_goes_on_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = binarised_text(tmp_path)
    types = len((data / "dict.a.txt").read_text(encoding="utf-8").splitlines()) + 4
    state = published_state(Layout(), (types, types))
    # As fairseq 0.6 has them beside the parameters, in a checkpoint of half precision.
    state |= {f"{stack}.version": torch.tensor([3.0]) for stack in ("encoder", "decoder")}
    state |= {f"{stack}.embed_positions._float_tensor": torch.zeros(1) for stack in ("encoder", "decoder")}
    whole = {"model": {name: tensor.half() for name, tensor in state.items()}, "best_loss": 3.5}
    command(saved(tmp_path / "in.pt", whole), tmp_path / "out.pt", f"--data={data}")
    *lines, further, ready = capsys.readouterr().out.splitlines()
    assert lines == [
        "encoder: 4 layers, width 8, feed-forward 12, 2 heads, post-norm, groups 1, relative positions 2",
        "decoder: 2 layers, width 8, feed-forward 12, 2 heads, post-norm, groups 1, relative positions 2",
        "relative-positions: keys",
        "dlcl-granularity: scalar",
        "share-all-embeddings: yes",
        f"tensors read: {len(state)}",
    ]
    assert ready == f"{tmp_path / 'out.pt'} is ready"
    monkeypatch.setattr(sys, "argv", ["generate", str(data), f"--path={tmp_path / 'out.pt'}", "--cpu", "--beam=2"])
    generate.cli_main()
    assert capsys.readouterr().out.count("\nH-") == 6

    label, _, words = further.partition(": ")
    assert label == "to train it further"
    rates = fairseq_train(
        monkeypatch, [str(data), "--batch-size=4"], tmp_path / "save", *shlex.split(words), "--max-update=2"
    )
    assert list(rates) == [0, 1]
    before, after = (load(path)["model"] for path in (tmp_path / "out.pt", tmp_path / "save" / "checkpoint_last.pt"))
    # Adam's first steps, with rates of 0 and 0.005 as the warm-up of two updates has it: no other model.
    assert 0 < max((after[name] - before[name]).abs().max() for name in before) < 0.006

    grown, lines = grow(load(tmp_path / "out.pt"), Growth({"encoder": 8}))
    assert grown["cfg"]["model"]["encoder_layers"] == 8
    assert lines[-1] == "optimizer: none in the checkpoint; a training from it counts its updates from 0"


def test_names_of_every_kind() -> None:
    for published, here in {
        "encoder.version": "",
        "decoder.embed_positions._float_tensor": "",
        "encoder.layers.11.self_attn.in_proj_bias": "q_proj.bias k_proj.bias v_proj.bias",
        "decoder.layers.0.layer_norms.0.weight": "self_attn_layer_norm.weight",
        "decoder.layers.0.layer_norms.1.bias": "encoder_attn_layer_norm.bias",
        "decoder.layers.0.layer_norms.2.bias": "final_layer_norm.bias",
        "encoder.layers.3.layer_norms.1.weight": "final_layer_norm.weight",
        "encoder.layers.3.self_attn.relative_position_values": "relative_values",
        "decoder.layers.3.self_attn.relative_positions_keys.weight": "relative_keys",
        "decoder.embed_out": "decoder.output_projection.weight",
    }.items():
        found = names_here(published)
        assert found is not None
        assert len(found) == len(here.split())
        assert all(name.endswith(end) for name, end in zip(found, here.split()))
        assert all(name.split(".layers.")[0] == published.split(".layers.")[0] for name in found if ".layers." in name)
    for unknown in (
        "encoder.layers.3.layer_norms.2.weight",
        "encoder.layers.x.fc1.weight",
        "decoder.embed_out.bias",
        "",
    ):
        assert names_here(unknown) is None


def test_pre_norm_of_an_early_version(tmp_path: Path) -> None:
    data, known = dictionaries(tmp_path / "data", (14, 14)), known_state()
    path = saved(
        tmp_path / "in.pt",
        {**known, "encoder.layer_norm.weight": torch.ones(8), "encoder.layer_norm.bias": torch.ones(8)},
    )
    command(path, tmp_path / "out.pt", f"--data={data}", *LANGUAGES, "--decoder-norm=pre")
    assert model_of(tmp_path / "out.pt", data).decoder.layer_norm is None


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        command("--help")
    assert "docs/importing.md" in capsys.readouterr().out
