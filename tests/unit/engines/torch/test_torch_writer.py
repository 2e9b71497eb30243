"""What is written for the torch engine: every kind of model, the same as in memory, and not with a weight changed."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary
from support.checkpoints import config_of, load
from support.models import batch, task
from support.searched_models import MODELS
from support.slow import slow_but
from support.translation_models import write_checkpoint, write_data

from deepnmt.checkpoints import packed
from deepnmt.checkpoints.file import write
from deepnmt.engines.torch import writer
from deepnmt.engines.torch.fairseq_engine import load_checkpoints
from deepnmt.export.parity import LARGEST_DIFFERENCE
from deepnmt.kernels.products import obstacle
from deepnmt.model.transformer import DLCLTransformerModel
from deepnmt.search import reduced

# The list as fairseq keeps it in a checkpoint.
KINDS = {**MODELS, "adaptive softmax": {"adaptive_softmax_cutoff": [8, 16]}}
# In attention that is as even as that of random models, queries and keys of fewer bits are lost in the rounding.
TELLING = ("v_proj.weight", "out_proj.weight", "fc1.weight", "fc2.weight")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("torch_model") / "data")


# The other kinds are searched in test_inference_engine.py, too.
@pytest.mark.parametrize("kind", slow_but([*KINDS][::5], KINDS))
def test_every_kind_and_a_broken_weight_shows(
    kind: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = write_checkpoint(tmp_path / "checkpoint.pt", data, **KINDS[kind])
    words = Dictionary.load(str(data / "dict.de.txt"))
    sources = [[words[number] for number in row] for row in ([4, 9, 5, 12, 7], [8, 6])]
    targets = [[words[number] for number in row] for row in ([11, 4, 6], [5, 13, 10, 7])]

    model = DLCLTransformerModel.build_model(config_of(load(checkpoint)), task(words)).eval()
    model.load_state_dict(load(checkpoint)["model"])
    expected = []
    for source, target in zip(sources, targets):
        numbers = [words.index(word) for word in target]
        with torch.no_grad():
            logits = model(**batch([[words.index(word) for word in source]], [numbers]))
            all_types = model.get_normalized_probs(logits, log_probs=True)[0].double()
        expected += all_types[range(len(numbers) + 1), [*numbers, words.eos()]].tolist()

    def difference(weights: str) -> float:
        engine = load_checkpoints(
            [tmp_path / "model.safetensors"], data, ("de", "en"), threads=1, device="cpu", weights=weights
        )
        found = [value for row in engine.score(sources, targets) for value in row]
        return max(abs(one - other) for one, other in zip(found, expected, strict=True))

    def matrix(state: dict[str, Any], endings: tuple[str, ...]) -> str:
        """Another matrix for each kind."""
        model = state["model"]
        names = [name for name in model if model[name].dim() == 2 and "embed" not in name and name.endswith(endings)]
        if "no_cross_attention" in KINDS[kind]:
            names = [name for name in names if name.startswith("decoder.")]
        return names[7 * list(KINDS).index(kind) % len(names)]

    writer.write([checkpoint], data, tmp_path, "float32")
    assert difference("float32") < LARGEST_DIFFERENCE / 10
    state: dict[str, Any] = load(tmp_path / "model.safetensors")
    name = matrix(state, ("",))
    state["model"][name] += 0.1 * torch.randn(state["model"][name].shape, generator=torch.Generator().manual_seed(1))
    write(state, tmp_path / "model.safetensors")
    assert difference("float32") > LARGEST_DIFFERENCE, name

    # Fewer bits, of each kind the one or the other, and of maps as small as these.
    weights = ("bfloat16", "int8")[list(KINDS).index(kind) % 2]
    if obstacle(weights, torch.device("cpu")) is not None:
        pytest.skip(f"this processor has no products of {weights}")
    monkeypatch.setattr(packed, "FEW_WEIGHTS", 0)
    monkeypatch.setattr(reduced, "FEW_WEIGHTS", 0)
    writer.write([checkpoint], data, tmp_path, weights)
    rounding = difference(weights)
    assert LARGEST_DIFFERENCE < rounding < 0.3
    state = load(tmp_path / "model.safetensors")
    name = matrix(state, TELLING)
    assert state["model"][name].dtype == getattr(torch, weights)
    state["model"][name].neg_()
    write(state, tmp_path / "model.safetensors")
    assert difference(weights) > 3 * rounding, name


def test_no_place_of_the_machine_is_written(data: Path, tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "checkpoint.pt", data)
    expected = load_checkpoints([checkpoint], data, ("de", "en"), threads=1, device="cpu").score([["x"]], [["y"]])
    state: dict[str, Any] = load(checkpoint)
    state["cfg"]["model"] |= {"encoder_embed_path": "/home/me/de.vec", "decoder_embed_path": "home/en.vec"}
    places = {
        "pair_weights": "home.txt",
        "difficulty": "home",
        "constraint_file": "/home/me/c",
        "nbest_file": "home.tsv",
    }
    state["cfg"]["task"] |= {**places, "eval_bleu": True, "eval_bleu_args": '{"beam": 2, "lm_path": "/home/me/lm.pt"}'}
    torch.save(state, checkpoint)
    writer.write([checkpoint], data, tmp_path, "float32")
    written = load(tmp_path / "model.safetensors")
    assert "home" not in str(written["cfg"])
    assert str(tmp_path) not in str(written["cfg"])
    assert written["cfg"]["task"] == {
        "_name": "translation", "data": ".", "source_lang": "de", "target_lang": "en", "eval_bleu": True
    }  # fmt: skip
    model = load_checkpoints([tmp_path / "model.safetensors"], data, ("de", "en"), threads=1, device="cpu")
    assert model.score([["x"]], [["y"]]) == expected

    # As fairseq's before 0.10, all options in one.
    options = {"arch": "transformer", "encoder_layers": 2, "data": str(data), "dropout": 0.1, "save_dir": "home"}
    options |= {"tensorboard_logdir": "home", "user_dir": "/home/me/code", "finetune_from_model": "home.pt"}
    torch.save({**state, "cfg": None, "args": Namespace(**options)}, checkpoint)
    writer.write([checkpoint], data, tmp_path, "float32")
    kept = {"arch": "transformer", "encoder_layers": 2, "data": ".", "dropout": 0.1}
    assert vars(load(tmp_path / "model.safetensors")["args"]) == kept
