"""deepnmt import of transformers' own FSMT and M2M100 models: their logits in fairseq, and a line each otherwise."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils
from safetensors.torch import save_file
from support.checkpoints import load, run_command
from support.models import batch, logits
from support.published_model import dictionaries
from support.slow import slow_but

transformers = pytest.importorskip("transformers")

command = functools.partial(run_command, "import")
LANGUAGES = ["--source-lang=a", "--target-lang=b"]
TYPES = (14, 17)
SIZES: dict[str, Any] = {
    "d_model": 8, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 2, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 12, "decoder_ffn_dim": 16, "max_position_embeddings": 20, "init_std": 0.5,
}  # fmt: skip
# Class, entries of the configuration, numbers of types, and options of the model here.
KINDS: dict[str, tuple[str, dict[str, Any], tuple[int, int], dict[str, Any]]] = {
    "fsmt": (
        "FSMT", {"src_vocab_size": 14, "tgt_vocab_size": 17}, TYPES,
        {"encoder_norm": "post", "decoder_norm": "post", "encoder_groups": "none", "max_source_positions": 20,
         "share_decoder_input_output_embed": False, "activation_fn": "relu"},
    ),
    "fsmt, one table": (
        "FSMT",
        {"src_vocab_size": 14, "tgt_vocab_size": 14, "tie_word_embeddings": True, "activation_function": "gelu",
         "scale_embedding": False},
        (14, 14), {"share_all_embeddings": True, "activation_fn": "gelu", "no_scale_embedding": True},
    ),
    "m2m_100": (
        "M2M100", {"vocab_size": 14}, (14, 14),
        {"encoder_norm": "pre", "decoder_norm": "pre", "share_all_embeddings": True, "no_decoder_final_norm": False},
    ),
}  # fmt: skip


def saved(folder: Path, kind: str) -> Any:
    """A random model of transformers, in a folder as transformers writes it."""
    name, entries, _, _ = KINDS[kind]
    torch.manual_seed(1)
    config = getattr(transformers, f"{name}Config")(**SIZES, **entries)
    model = getattr(transformers, f"{name}ForConditionalGeneration")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad and parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn(parameter.shape))
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("kind", slow_but(["fsmt", "m2m_100"], KINDS))
@pytest.mark.parametrize("pickled", slow_but([False], [False, True]))
def test_logits_of_transformers(kind: str, pickled: bool, tmp_path: Path) -> None:
    model, data = saved(tmp_path / "model", kind), dictionaries(tmp_path / "data", KINDS[kind][2])
    if pickled:
        (tmp_path / "model" / "model.safetensors").unlink()
        torch.save(model.state_dict(), tmp_path / "model" / "pytorch_model.bin")
    command(tmp_path / "model", tmp_path / "out.pt", f"--data={data}", *LANGUAGES)
    options = load(tmp_path / "out.pt")["cfg"]["model"]
    assert {name: options[name] for name in KINDS[kind][3]} == KINDS[kind][3]
    (imported,), _, _ = checkpoint_utils.load_model_ensemble_and_task(
        [str(tmp_path / "out.pt")], arg_overrides={"data": str(data)}
    )
    source, target = [[5, 6, 7, 8, 9], [10, 11]], [[6, 7, 8], [13, 4, 5, 6, 7]]
    found = logits(imported.eval(), batch(source, target))
    for number, (one, other) in enumerate(zip(source, target)):
        inputs = {"input_ids": torch.tensor([[*one, 2]]), "decoder_input_ids": torch.tensor([[2, *other]])}
        with torch.no_grad():
            expected = model(**inputs, use_cache=False).logits[0]
        torch.testing.assert_close(found[number, : len(expected)], expected, rtol=1e-5, atol=1e-5)


def edited(name: str, **values: Any) -> Callable[[Path], object]:
    def edit(folder: Path) -> None:
        record = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**record, **values}))

    return edit


def vocabulary(folder: Path, data: Path, other: bool) -> None:
    """FSMT's file for the source, with the marks at the end of words that it has."""
    types = [line.split()[0] for line in (data / "dict.a.txt").read_text("utf-8").splitlines()]
    names = ["<s>", "<pad>", "</s>", "<unk>", *(f"{name}</w>" for name in types)]
    names = [*names[:4], *reversed(names[4:])] if other else names
    (folder / "vocab-src.json").write_text(json.dumps({name: number for number, name in enumerate(names)}))


CONFIG, WEIGHTS = "config.json", "model.safetensors"


def in_parts(folder: Path, name: str) -> None:
    """Let an index name another file of weights."""
    (folder / WEIGHTS).rename(folder / "model-1.safetensors")
    index = {"weight_map": {"a": "model-1.safetensors", "b": name}}
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps(index))


# What is done to the folder, and the line, which begins with it.
FAULTS: list[tuple[Callable[[Path], object], str]] = [
    (edited(CONFIG, model_type="bart"), "/config.json: 'model_type' must be one of fsmt, m2m_100, but is 'bart'"),
    (
        edited(CONFIG, encoder_attention_heads=0),
        "/config.json: 'encoder_attention_heads' must be at least 1, but is 0",
    ),
    (
        edited(CONFIG, decoder_attention_heads="two"),
        "/config.json: 'decoder_attention_heads' must be a whole number, but is \"two\"",
    ),
    (
        edited(CONFIG, activation_function="swish"),
        "/config.json: 'activation_function' must be one of relu, gelu, tanh, linear, but is 'swish'",
    ),
    (edited(CONFIG, pad_token_id=0), "/config.json: 'pad_token_id' must be 1, but is 0"),
    (edited(CONFIG, eos_token_id=[2, 0]), "/config.json: 'eos_token_id' must be 2, but is [2, 0]"),
    (edited(CONFIG, decoder_start_token_id=0), "/config.json: 'decoder_start_token_id' must be 2, but is 0"),
    (edited(CONFIG, encoder_layers=3), "/config.json: 'encoder_layers' must be 2, but is 3"),
    (
        lambda folder: (folder / WEIGHTS).unlink(),
        "/pytorch_model.bin: no such file; the folder needs model.safetensors or pytorch_model.bin",
    ),
    (
        lambda folder: (folder / WEIGHTS).write_bytes(b"12345678{}"),
        "/model.safetensors: must be the weights of a model, as transformers writes them, but is another file, "
        "truncated or damaged",
    ),
    (
        lambda folder: save_file({"model.a": torch.tensor([1.0, torch.nan])}, folder / WEIGHTS),
        ": model.a must be finite numbers, but has NaN or infinity",
    ),
    (
        lambda folder: save_file({"model.a": torch.tensor([1, 2])}, folder / WEIGHTS),
        ": model.a must be floating-point numbers, but is torch.int64",
    ),
    (
        lambda folder: in_parts(folder, "model-2.safetensors"),
        f"/model-2.safetensors: no such file, but {{folder}}/{WEIGHTS}.index.json lists it",
    ),
    (
        lambda folder: (in_parts(folder, "parts.bin"), torch.save([1], folder / "parts.bin")),
        "/parts.bin: must be the weights of a model, as transformers writes them, but is another file",
    ),
    (lambda folder: (folder / CONFIG).unlink(), "/config.json: no such file"),
]


def test_faults_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, data = tmp_path / "model", dictionaries(tmp_path / "data", TYPES)
    saved(folder, "fsmt")
    whole = {path: path.read_bytes() for path in folder.iterdir()}

    def fault(*words: str) -> str:
        with pytest.raises(SystemExit, match=r"^2$"):
            command(folder, tmp_path / "out.pt", f"--data={data}", *LANGUAGES, *words)
        lines = capsys.readouterr().err.splitlines()
        assert not (tmp_path / "out.pt").exists()
        return lines[-1]

    for change, message in FAULTS:
        change(folder)
        assert f"{folder}{message.format(folder=folder)}" in fault()
        for path in folder.iterdir():
            path.unlink()
        for path, contents in whole.items():
            path.write_bytes(contents)
    assert f"options of the model cannot be combined with {folder}" in fault("--encoder-norm=pre")
    vocabulary(folder, data, other=True)
    assert (
        f"{data}/dict.a.txt: must have the types of {folder}/vocab-src.json, in their order, but has others" in fault()
    )
    (folder / "dict.a.txt").write_text("zzz 1\n")
    assert f"{data}/dict.a.txt: must have the types of {folder}/dict.a.txt, in their order, but has others" in fault()
    (folder / "dict.a.txt").unlink()
    vocabulary(folder, data, other=False)
    command(folder, tmp_path / "out.pt", f"--data={data}", *LANGUAGES)
