"""From text to translations with models that are no Transformers of this package: trained, searched, exported."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.flow import GERMAN, Result, corpus, errors, in_process, preprocess

from deepnmt.translator import Translator

SMALL = ["--max-update=6", "--warmup-updates=2", "--cooldown-updates=2", "--max-tokens=400", "--update-freq=1"]
SMALL += ["--encoder-layers=2", "--encoder-embed-dim=16", "--decoder-embed-dim=16", "--encoder-ffn-embed-dim=16"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("flow")
    done = preprocess(corpus(folder / "text"), folder / "data")
    assert done.returncode == 0, done.stderr
    return folder / "data"


def do(name: str, *words: object) -> Result:
    done = in_process(name, *words)
    assert done.returncode == 0, done.stderr
    return done


def trained(data: Path, save: Path, recipe: str, *more: str) -> Path:
    """The average of the last two checkpoints of a recipe."""
    do("train", recipe, data, save, *SMALL, *more)
    do("average", save, save / "average.pt", "--last", "2")
    return save / "average.pt"


@pytest.mark.slow
def test_a_model_that_is_not_autoregressive(data: Path, tmp_path: Path) -> None:
    average = trained(data, tmp_path / "save", "synthetic/cmlm", "--decoder-layers=1", "--decoder-ffn-embed-dim=16")
    for iterations in (1, 10):
        out = tmp_path / str(iterations)
        more = ["--task", "translation_lev", "--iter-decode-max-iter", iterations - 1]
        do("generate", average, data, out, *more)
        assert len((out / "hyp.en").read_text("utf-8").splitlines()) == 2
        assert f"--iter-decode-max-iter {iterations - 1}" in (out / "generate.log").read_text("utf-8")
    lines = {
        ("generate", average, data, tmp_path / "x"): "--task must be translation_lev with a model that is not autoreg",
        ("generate", average, data, tmp_path / "x", "--task", "translation_lev", "--lenpen", "2"): (
            "--lenpen cannot be combined with --task translation_lev, which has no beam search"
        ),
        ("export", average, data, tmp_path / "x"): "average.pt: is not autoregressive; use deepnmt generate --task tra",
    }
    for command, line in lines.items():
        [found] = errors(in_process(*command))
        assert line in found
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
@pytest.mark.parametrize("decoder", ["lstm", "lightconv"])
def test_other_decoders(decoder: str, data: Path, tmp_path: Path) -> None:
    average = trained(data, tmp_path / "save", f"synthetic/{decoder}_12_1")
    do("generate", average, data, tmp_path / "out")
    expected = (tmp_path / "out" / "hyp.en").read_text("utf-8").splitlines()
    said = do("export", average, data, tmp_path / "model").stdout
    assert "--engine auto: torch; not ctranslate2: " in said
    assert "not onnx: the model is not a Transformer of fairseq or of this package" in said
    assert [Translator(tmp_path / "model").translate(line) for line in GERMAN[:2]] == expected
    do("export", average, data, tmp_path / "small", "--engine", "torch", "--weights", "int8", "--allow-loss")
    for engine in ("onnx", "ctranslate2", "transformers"):
        [found] = errors(in_process("export", average, data, tmp_path / "x", "--engine", engine))
        assert "use --engine torch" in found
    for more, line in {
        ("--engine", "torch", "--shortlist", "5"): "--shortlist cannot be used: ",
    }.items():
        [found] = errors(in_process("export", average, data, tmp_path / "x", *more))
        assert line in found
    [found] = errors(in_process("grow", average, tmp_path / "y.pt", "--encoder-layers", "4"))
    assert found.endswith(f"must be dlcl_transformer or one of its architectures, but is dlcl_transformer_{decoder}")
    assert not (tmp_path / "x").exists()
