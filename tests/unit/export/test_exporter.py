"""Exports for the torch engine: whole or not at all, by themselves, and never with a weight that was changed."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.checkpoints import load, run_main, with_tensors
from support.slow import slow_but
from support.translation_models import write_checkpoint, write_data

from deepnmt.checkpoints.file import write as write_checkpoint_file
from deepnmt.cli import export as export_command
from deepnmt.cli import translate as translate_command
from deepnmt.engines.engine import SearchSettings
from deepnmt.engines.model_folder import ModelFolder
from deepnmt.engines.registry import load_engine
from deepnmt.engines.torch import writer
from deepnmt.engines.torch.fairseq_engine import load_checkpoints
from deepnmt.errors import UserError
from deepnmt.export.exporter import Export, export
from deepnmt.kernels import products
from deepnmt.kernels.products import obstacle
from deepnmt.search.reduced import kind_of
from deepnmt.translator import Translator

SEARCH = SearchSettings(beam=3, max_len_b=12)
LINES = ["Der Hund schläft.", "", "Die Katze, „Mia“, frißt mehr."]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("export") / "data")


# test_torch_writer.py has models of each kind.
@pytest.fixture(scope="module")
def checkpoint(data: Path) -> Path:
    kind = {"encoder_max_relative_length": 4, "decoder_norm": "post", "merged_attention": True}
    return write_checkpoint(data.parent / "relative.pt", data, **kind)


@pytest.fixture(scope="module")
def plain(data: Path) -> Path:
    return write_checkpoint(data.parent / "plain.pt", data, seed=2)


def broken(path: Path) -> Callable[..., None]:
    """A writer that changes one weight of what it writes: one out of the middle, by a percent of the model's spread."""
    whole = writer.write

    def write(checkpoints: list[Path], data: Path, folder: Path, weights: str) -> None:
        whole(checkpoints, data, folder, weights)
        state = load(folder / "model.safetensors")
        names = [name for name in state["model"] if name.endswith("fc1.weight")]
        state["model"][names[-1]][1, 1] += 0.05
        write_checkpoint_file(state, folder / "model.safetensors")

    return write


def test_a_changed_weight_fails_the_check(
    data: Path, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = export(Export([checkpoint], data, search=SEARCH), tmp_path / "right")
    assert result is not None
    assert (result.pairs, result.differing) == (12, 0)
    assert result.difference < 1e-5
    monkeypatch.setattr(writer, "write", broken(checkpoint))
    with pytest.raises(UserError, match=r"--weights float32: log-probabilities must agree .* but differ by"):
        export(Export([checkpoint], data, search=SEARCH), tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["right"]
    assert export(Export([checkpoint], data, check=0, search=SEARCH), tmp_path / "model") is None
    assert ModelFolder.open(tmp_path / "model").check == {"pairs": 0}


def test_a_model_folder_needs_nothing_else(data: Path, plain: Path, tmp_path: Path) -> None:
    """The data, the checkpoints and the place where it was made are gone; an ensemble has two files."""
    other = write_checkpoint(tmp_path / "other.pt", data, seed=3)
    copy = shutil.copytree(data, tmp_path / "data")
    first = shutil.copyfile(plain, tmp_path / "first.pt")
    expected = Translator.from_checkpoint(f"{first}:{other}", copy).translate(LINES, beam=3, max_len_b=12)
    assert expected != Translator.from_checkpoint(first, copy).translate(LINES, beam=3, max_len_b=12)
    export(Export([first, other], copy, search=SEARCH), tmp_path / "model")
    moved = shutil.move(tmp_path / "model", tmp_path / "moved")
    for path in (copy, other, first):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert {path.name for path in moved.iterdir()} == {
        "codes", "dict.de.txt", "dict.en.txt", "model.json", "model.safetensors", "model2.safetensors",
    }  # fmt: skip
    assert Translator(moved).translate(LINES) == expected
    for path in moved.iterdir():
        assert str(tmp_path).encode() not in path.read_bytes()


def test_a_model_keeps_its_direction(data: Path, plain: Path, tmp_path: Path) -> None:
    backwards = tmp_path / "backwards.pt"
    state = load(plain)
    state["cfg"]["task"]["_name"] = "deep_translation"
    torch.save({**state, "task_state": {"right_to_left": True}}, backwards)
    result = export(Export([backwards], data, search=SEARCH), tmp_path / "model")
    assert result is not None
    assert result.differing == 0
    turned, straight = (
        translator.nbest(LINES[:1], 1, beam=3, max_len_b=12)[0][0].tokens
        for translator in (Translator(tmp_path / "model"), Translator.from_checkpoint(plain, data))
    )
    assert turned == straight[::-1] != straight
    with pytest.raises(UserError, match=r"^models that translate from right to left: use --engine torch$"):
        export(Export([backwards], data, engine="onnx"), tmp_path / "other")


def test_each_file_of_the_model_is_needed(data: Path, plain: Path, tmp_path: Path) -> None:
    export(Export([plain], data, check=0), tmp_path / "model")
    for path in sorted((tmp_path / "model").iterdir()):
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(UserError, match=rf"^{path}"):
            Translator(tmp_path / "model")
        path.write_bytes(whole)
    # A record that does not name the weights does not make up for them.
    record = json.loads((tmp_path / "model" / "model.json").read_text())
    del record["files"]["model.safetensors"]
    (tmp_path / "model" / "model.json").write_text(json.dumps(record))
    (tmp_path / "model" / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"model\.safetensors: no such checkpoint"):
        Translator(tmp_path / "model")


def test_fairseqs_own_transformer(data: Path, tmp_path: Path) -> None:
    """Its checkpoints have their options in a Namespace, or in `args` where they are old."""
    path = write_checkpoint(tmp_path / "new.pt", data, encoder_groups="none", decoder_groups="none")
    state = load(path)
    names = ("layers", "embed_dim", "ffn_embed_dim", "attention_heads", "normalize_before", "learned_pos")
    options = {f"{stack}_{name}": state["cfg"]["model"][f"{stack}_{name}"] for stack in STACKS for name in names}
    options |= {"arch": "transformer", "_name": "transformer", "dropout": 0.0, "activation_fn": "relu"}
    as_trained = {**state, "cfg": {**state["cfg"], "model": Namespace(**options)}}
    old = {**state, "cfg": None, "args": Namespace(**options, **without_name(state["cfg"]["task"]))}
    found = []
    for engine in ("torch", "transformers"):
        for contents in (as_trained, old):
            torch.save(contents, path)
            export(Export([path], data, engine, check=0, search=SEARCH), tmp_path / "model")
            found.append(Translator(tmp_path / "model").translate(LINES))
    torch.save(state, path)
    expected = Translator.from_checkpoint(path, data).translate(LINES, beam=3, max_len_b=12)
    assert found == [expected] * 4


STACKS = ("encoder", "decoder")


def without_name(options: dict[str, Any]) -> dict[str, Any]:
    return {**{name: value for name, value in options.items() if name != "_name"}, "task": "translation"}


def test_an_existing_folder(data: Path, plain: Path, tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    export(Export([plain], data, check=0), target)
    export(Export([plain], data, check=0, search=SEARCH), target)
    assert ModelFolder.open(target).search == SEARCH
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    (target / "model.json").write_text('{"format": 1}')
    (tmp_path / "file").write_text("x")
    for other in (target, tmp_path / "file", data):
        with pytest.raises(UserError, match=rf"^{other} exists, and was not made by deepnmt export; "):
            export(Export([plain], data, check=0), other)
    export(Export([plain], data, check=0), tmp_path / "new" / "model")
    assert ModelFolder.open(tmp_path / "new" / "model").engine == "torch"


def test_what_is_refused(data: Path, plain: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pt"
    torch.save(with_tensors(load(plain), lambda name: "layers.1" not in name), cut)
    without_codes = shutil.copytree(data, tmp_path / "data")
    (without_codes / "codes").unlink()
    before = sorted(tmp_path.iterdir())
    for words, message in (
        ([cut, data], r"Missing key|must hold|layers"),
        ([tmp_path / "no.pt", data], r"no\.pt: no such checkpoint"),
        ([plain, tmp_path], r"preprocess\.json: no such file; is .* a folder made by deepnmt preprocess\?"),
        ([plain, without_codes], r"data/codes: must be .*|codes"),
        ([plain, data, "--check", -1], r"--check must be at least 0 and at most \d+, but is -1"),
        ([plain, data, "--beam", 0], r"--beam must be from 1 to 256, but is 0"),
    ):
        with pytest.raises((UserError, SystemExit, OSError), match=message):
            run_main(export_command.main, "deepnmt export", *words[:2], tmp_path / "model", *words[2:])
        assert sorted(tmp_path.iterdir()) == before


def test_the_commands(data: Path, plain: Path, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    model, text, output = tmp_path / "model", tmp_path / "raw", tmp_path / "out"
    text.write_bytes("".join(f"{line}\n" for line in LINES).encode())
    run_main(export_command.main, "deepnmt export", plain, data, model, "--beam", 3, "--check", 5)
    lines = capsysbinary.readouterr().out.decode().splitlines()
    assert lines[0].startswith("--engine auto: ")
    assert lines[1].startswith("check of 5 pairs: log-probabilities differ by up to")
    assert lines[2] == f"{model} is ready"
    run_main(translate_command.main, "deepnmt translate", model, text, "--max-len-b", 12)
    found = capsysbinary.readouterr()
    assert found.out.decode().splitlines() == Translator(model).translate(LINES, max_len_b=12)
    assert b"translating: 100%" in found.err
    words = ("--beam-stop", "first", text, "--output", output, "--max-len-b", 12)
    run_main(translate_command.main, "deepnmt translate", plain, "--data", data, *words)
    expected = Translator(model).translate(LINES, beam=5, max_len_b=12, beam_stop="first")
    assert output.read_text().splitlines() == expected
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["model", "out", "raw"]


def test_a_pipe_that_nobody_may_write_to_is_no_text(data: Path, plain: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UserError, match=rf"^{pipe}: must be a file, but is a named pipe$"):
        run_main(translate_command.main, "deepnmt translate", plain, "--data", data, pipe)


def test_each_form_of_the_output(
    data: Path, plain: Path, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    text = tmp_path / "raw"
    text.write_bytes("".join(f"{line}\n" for line in LINES).encode())
    best = [found[:2] for found in Translator.from_checkpoint(str(plain), data).nbest(LINES, 2, max_len_b=12)]

    def output(*words: object) -> list[str]:
        given = ("--data", data, text, "--max-len-b", 12, "--buffer", 1, "--batch-size", 1, "--threads", 1, *words)
        run_main(translate_command.main, "deepnmt translate", plain, *given)
        return capsysbinary.readouterr().out.decode().splitlines()

    single = [found[0] if found else None for found in best]
    scores = [line.split("\t") for line in output("--scores", "--strict")]
    assert [line[-1] for line in scores] == [found.text if found else "" for found in single]
    assert [float(line[0]) for line, found in zip(scores, single) if found] == pytest.approx(
        [found.score for found in single if found], abs=1e-3
    )
    lists = [line.split("\t") for line in output("--nbest", 2)]
    assert [line[2] for line in lists if line[2]] == [found.text for each in best for found in each if found.text]
    records = [json.loads(line) for line in output("--json")]
    assert [record["line"] for record in records] == list(range(1, len(LINES) + 1))
    assert [record["text"] for record in records] == [found.text if found else "" for found in single]
    text.write_text("ein " * 2000 + "\n")
    with pytest.raises(UserError, match="raw:1: too long: 6000 subwords"):
        output("--strict")


def test_kinds_of_values_of_the_api(data: Path, plain: Path) -> None:
    translator = Translator.from_checkpoint(plain, data)
    with pytest.raises(UserError, match=r"^--beam must be a whole number, but is '2'$"):
        translator.translate(LINES[0], beam="2")
    for translate in (translator.translate, translator.nbest):
        with pytest.raises(UserError, match=r"^nbest: must be given as the number of Translator\.nbest alone$"):
            translate(LINES, nbest=2)


@pytest.mark.parametrize(
    ("weights", "share", "largest"), slow_but([("int8", 0.4, 4.0)], [("bfloat16", 0.6, 1.0), ("int8", 0.4, 4.0)])
)
def test_weights_of_fewer_bits(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights: str, share: float, largest: float
) -> None:
    if obstacle(weights, torch.device("cpu")) is not None:
        pytest.skip(f"this processor has no products of {weights}")
    wide = {f"{stack}_{name}": 256 for stack in ("encoder", "decoder") for name in ("embed_dim", "ffn_embed_dim")}
    checkpoint = write_checkpoint(tmp_path / "wide.pt", data, **wide)
    task = Export([checkpoint], data, search=SEARCH)
    full, small = tmp_path / "full", tmp_path / "small"
    export(task, full)
    result = export(dataclasses.replace(task, weights=weights, allow_loss=True), small)
    assert result is not None
    # The model is random, and its logits are far apart.
    assert 1e-4 < result.difference < largest
    assert (small / "model.safetensors").stat().st_size < share * (full / "model.safetensors").stat().st_size
    engine: Any = load_engine(ModelFolder.open(small))
    assert kind_of(engine.models[0].encoder.layers[0].fc1) == kind_of(engine.models[0].decoder.layers[0].fc1) == weights
    # What was rounded can be exported once more, and loses nothing more.
    for kind in ("float32", weights):
        again = export(Export([small / "model.safetensors"], data, weights=kind, search=SEARCH), tmp_path / "again")
        assert again is not None
        assert again.difference < (1e-4 if kind == "float32" else 1.001 * result.difference), kind
    assert (tmp_path / "again" / "model.safetensors").stat().st_size == (small / "model.safetensors").stat().st_size
    # Each translation is that of its sentence alone.
    translator = Translator(small)
    assert [translator.translate(line) for line in LINES] == translator.translate(LINES)
    monkeypatch.setattr(products, "_capabilities", dict)
    if weights == "int8":
        # Its sums are exact on every processor.
        assert Translator(small).translate(LINES) == translator.translate(LINES)
        return
    with pytest.raises(UserError, match=rf"^--weights {weights}: needs a processor with avx"):
        Translator(small)
    with pytest.raises(UserError, match=rf"^--weights {weights}: needs a processor with avx"):
        export(dataclasses.replace(task, weights=weights), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_float16_halves_the_file_and_is_computed_in_float32(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = {f"{stack}_{name}": 256 for stack in ("encoder", "decoder") for name in ("embed_dim", "ffn_embed_dim")}
    checkpoint = write_checkpoint(tmp_path / "wide.pt", data, **wide)
    # On any processor.
    monkeypatch.setattr(products, "_capabilities", dict)
    task = Export([checkpoint], data, "auto", "float16", search=SEARCH, allow_loss=True)
    sizes, said = {}, []
    for weights in ("float32", "float16"):
        result = export(dataclasses.replace(task, weights=weights, check=20), tmp_path / weights, said.append)
        sizes[weights] = (tmp_path / weights / "model.safetensors").stat().st_size
    assert result is not None
    assert 1e-4 < result.difference < 0.5
    assert sizes["float16"] < 0.6 * sizes["float32"]
    assert said[1].startswith("--engine auto: torch")
    rounded: Any = torch.load(checkpoint, weights_only=True)
    for name, tensor in rounded["model"].items():
        if tensor.numel() >= 2**16:
            rounded["model"][name] = tensor.half().float()
    torch.save(rounded, tmp_path / "rounded.pt")
    expected = Translator.from_checkpoint(tmp_path / "rounded.pt", data, threads=1)
    found = Translator(tmp_path / "float16").translate(LINES, beam=3, max_len_b=12)
    assert found == expected.translate(LINES, beam=3, max_len_b=12)


@pytest.mark.parametrize("weights", ["bfloat16", "int8"])
def test_a_changed_weight_of_fewer_bits_costs_bleu(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights: str
) -> None:
    """Of a model that has learnt its validation set: the references are its own translations."""
    if obstacle(weights, torch.device("cpu")) is not None:
        pytest.skip(f"this processor has no products of {weights}")
    sizes = {"embed_dim": 256, "ffn_embed_dim": 256, "layers": 2, "groups": "none"}
    wide = {f"{stack}_{name}": value for stack in ("encoder", "decoder") for name, value in sizes.items()}
    checkpoint = write_checkpoint(tmp_path / "wide.pt", data, **wide)
    copy = shutil.copytree(data, tmp_path / "data")
    sources = [line.split() for line in (copy / "text" / "valid.bpe.de").read_text("utf-8").splitlines()]
    found = load_checkpoints([checkpoint], copy, ("de", "en"), device="cpu").search(sources, SEARCH)
    references = "".join(f"{' '.join(hypotheses[0].tokens)}\n" for hypotheses in found)
    (copy / "text" / "valid.bpe.en").write_text(references, "utf-8")
    task = Export([checkpoint], copy, weights=weights, search=SEARCH)
    result = export(task, tmp_path / "model")
    assert result is not None
    assert (result.bleu, result.bleu_before) == (pytest.approx(100), pytest.approx(100))

    whole = writer.write

    def write(checkpoints: list[Path], data: Path, folder: Path, weights: str) -> None:
        whole(checkpoints, data, folder, weights)
        state = load(folder / "model.safetensors")
        state["model"]["decoder.layers.1.encoder_attn.v_proj.weight"].neg_()
        write_checkpoint_file(state, folder / "model.safetensors")

    monkeypatch.setattr(writer, "write", write)
    with pytest.raises(UserError, match=rf"^--engine torch --weights {weights}: at most 1\.0 BLEU may be lost, but "):
        export(task, tmp_path / "broken")
    assert not (tmp_path / "broken").exists()


def test_a_killed_export_leaves_nothing_to_the_next(
    data: Path, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, read_end = Export([plain], data, check=0), os.pipe()
    child = os.fork()
    if not child:
        whole = writer.write

        def write(*arguments: Any) -> None:
            whole(*arguments)
            os.write(read_end[1], b"written")
            signal.pause()

        monkeypatch.setattr(writer, "write", write)
        try:
            export(task, tmp_path / "model")
        finally:
            os._exit(1)
    try:
        os.close(read_end[1])
        assert os.read(read_end[0], 9) == b"written"
        left = {f"model.tmp.{child}", f"model.tmp.{child}.lock"}
        # Another export at the same time leaves it alone.
        export(task, tmp_path / "model")
        assert {path.name for path in tmp_path.iterdir()} == {"model", *left}
    finally:
        os.close(read_end[0])
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert {path.name for path in tmp_path.iterdir()} == {"model", *left}
    assert (tmp_path / f"model.tmp.{child}" / "model.safetensors").exists()
    export(task, tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
