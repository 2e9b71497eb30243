"""COMET in an environment of its own: a stand-in's by default, and the real package with a random model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.script_runs import folder_of_translations

from deepnmt.cli import score as command
from deepnmt.errors import UserError

COMET = """
import json, sys
from types import SimpleNamespace


class Model:
    def __init__(self, path):
        self.path = path

    def predict(self, samples, batch_size, gpus, progress_bar):
        print("noise")
        with open(self.path, encoding="utf-8") as file:
            if file.read() == "broken":
                raise RuntimeError("no such encoder")
            if self.path.endswith("nan.ckpt"):
                return SimpleNamespace(system_score=float("nan"))
        shares = [len(each["mt"]) / len(each["ref"]) for each in samples if each["src"].startswith("ä")]
        return SimpleNamespace(system_score=sum(shares) / len(samples))


def load_from_checkpoint(path):
    return Model(path)
"""
# In an environment that has torch, of this package's libraries, and a COMET.
TORCH = """
class cuda:
    is_available = staticmethod(lambda: False)
"""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An interpreter that finds a stand-in for COMET."""
    packages = tmp_path / "packages"
    (packages / "unbabel_comet-9.8.dist-info").mkdir(parents=True)
    (packages / "unbabel_comet-9.8.dist-info" / "METADATA").write_text("Name: unbabel-comet\nVersion: 9.8\n")
    (packages / "comet.py").write_text(COMET)
    (packages / "torch.py").write_text(TORCH)
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\nPYTHONPATH={packages} exec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def texts(tmp_path: Path) -> list[str]:
    for name, lines in (("hyp.en", "ab\ncd\n"), ("ref.en", "abcd\ncdef\n"), ("src.de", "ä eins\nä zwei\n")):
        (tmp_path / name).write_text(lines, encoding="utf-8")
    (tmp_path / "model.ckpt").write_text("weights")
    return [*(str(tmp_path / name) for name in ("hyp.en", "ref.en")), f"--source={tmp_path / 'src.de'}",
            f"--comet={tmp_path / 'model.ckpt'}", f"--output={tmp_path / 'scores.json'}"]  # fmt: skip


def test_score_of_another_environment(
    texts: list[str], python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Packages of this environment stay here.
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "nowhere"))
    command.main([*texts, f"--comet-python={python}"])
    found = json.loads((tmp_path / "scores.json").read_text())
    assert list(found) == ["BLEU", "chrF", "TER", "COMET"]
    # Both translations are half as long as their references; sha256sum of the model's file.
    assert found["COMET"] == {
        "score": 50.0, "signature": "comet:9.8|model:model.ckpt|sha256:9a129038d9a0|scale:100"
    }  # fmt: skip
    assert "COMET            50.00" in capsys.readouterr().out


def test_a_folder_of_translations(texts: list[str], python: Path, tmp_path: Path) -> None:
    lines = {"hyp": ["ab", "cd"], "ref": ["abcd", "cdef"]}
    folder = folder_of_translations(tmp_path / "out", {**lines, "hyp.tok": ["x", "y"], "ref.tok": ["x", "z"]})
    words = [str(folder), *texts[2:4], f"--comet-python={python}"]
    command.main(words)
    written = (folder / "scores.json").read_text()
    found = json.loads(written)
    assert list(found) == ["tokenised BLEU", "BLEU", "chrF", "TER", "COMET"]
    assert found["COMET"]["score"] == 50.0
    (folder / "ref.en").unlink()
    with pytest.raises(UserError, match=r"^--comet needs a raw reference, but .*out/ref\.en was not found$"):
        command.main(words)
    assert (folder / "scores.json").read_text() == written


def test_faults_are_one_line(texts: list[str], python: Path, tmp_path: Path) -> None:
    hypothesis, reference, source, model, _ = texts
    (tmp_path / "other.en").write_text("one line\n")
    lines, rest = str(tmp_path / "other.en"), texts[2:]
    for words, message in (
        (
            [hypothesis, reference, model],
            r"^--comet needs --comet-python, the Python of an environment with unbabel-comet",
        ),
        (
            [hypothesis, reference, model, f"--comet-python={python}"],
            r"^--comet needs --source, the raw text of the sour",
        ),
        ([hypothesis, reference, source], r"^--source needs --comet$"),
        ([hypothesis, reference, f"--comet-python={python}"], r"^--comet-python needs --comet$"),
        ([*texts, "--comet-python=/no/python"], r"^--comet-python: /no/python not found$"),
        ([*texts, f"--comet-python={python}", "--comet=no.ckpt"], r"^--comet: no\.ckpt not found$"),
        ([*texts, f"--comet-python={python}", "--pretokenized"], r"^--comet cannot be combined with --pretokenized$"),
        # Before any other score: HYP and REF differ in their numbers of lines.
        ([hypothesis, lines, *rest, "--comet-python=/no/python"], r"^--comet-python: /no/python not found$"),
        ([hypothesis, lines, *rest, f"--comet-python={python}", "--comet=no.ckpt"], r"^--comet: no\.ckpt not found$"),
        ([hypothesis, lines, *rest, f"--comet-python={python}", "--source=no.de"], r"^--source: no\.de not found$"),
    ):
        with pytest.raises(UserError, match=message):
            command.main(words)
    (tmp_path / "model.ckpt").write_text("broken")
    with pytest.raises(UserError, match=r"model\.ckpt: COMET failed: RuntimeError: no such encoder$"):
        command.main([*texts, f"--comet-python={python}"])
    (tmp_path / "nan.ckpt").write_text("weights")
    with pytest.raises(UserError, match=r"nan\.ckpt: COMET's score must be a finite number, but is nan$"):
        command.main([*texts, f"--comet-python={python}", f"--comet={tmp_path / 'nan.ckpt'}"])
    # A program that is no Python may end without a fault.
    with pytest.raises(UserError, match=r"model\.ckpt: COMET failed: no message$"):
        command.main([*texts, "--comet-python=/bin/true"])
    (tmp_path / "packages" / "comet.py").unlink()
    with pytest.raises(UserError, match=r"needs unbabel-comet; install it with pip in that environment$"):
        command.main([*texts, f"--comet-python={python}"])
    (tmp_path / "src.de").write_text("one line\n")
    with pytest.raises(UserError, match=r"src\.de has 1 lines, but .*ref\.en has 2$"):
        command.main([*texts, f"--comet-python={python}"])


# A regression model of two small random layers, which needs nothing from a hub.
RANDOM_MODEL = """
import sys
from pathlib import Path
import torch
from comet.models import RegressionMetric
from pytorch_lightning import Trainer
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import XLMRobertaConfig, XLMRobertaTokenizerFast

folder = Path(sys.argv[1])
encoder = folder / "encoder"
encoder.mkdir(parents=True)
words = "<s> <pad> </s> <unk> <mask> ab cd abcd cdef ä eins zwei".split()
tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer.post_processor = processors.TemplateProcessing(
    single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
)
tokenizer.save(str(folder / "tokenizer.json"))
XLMRobertaTokenizerFast(tokenizer_file=str(folder / "tokenizer.json")).save_pretrained(encoder)
XLMRobertaConfig(
    vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
    max_position_embeddings=130,
).save_pretrained(encoder)
torch.manual_seed(1)
model = RegressionMetric(
    encoder_model="XLM-RoBERTa", pretrained_model=str(encoder), load_pretrained_weights=False, hidden_sizes=[16],
    layer="mix", local_files_only=True,
)
trainer = Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
trainer.strategy.connect(model)
(folder / "hparams.yaml").write_text("class_identifier: regression_metric\\n")
(folder / "checkpoints").mkdir()
trainer.save_checkpoint(folder / "checkpoints" / "model.ckpt", weights_only=True)
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_real_package_with_a_random_model(texts: list[str], tmp_path: Path) -> None:
    """DEEPNMT_COMET_PYTHON names an environment that has it; otherwise pip makes one."""
    python = os.environ.get("DEEPNMT_COMET_PYTHON")
    if python is None:
        subprocess.run([sys.executable, "-m", "venv", tmp_path / "comet"], check=True)
        python = str(tmp_path / "comet" / "bin" / "python")
        packages = ["unbabel-comet==2.2.7", "torch==2.13.0", "setuptools<81"]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    subprocess.run([python, "-c", RANDOM_MODEL, tmp_path / "model"], check=True)
    model = tmp_path / "model" / "checkpoints" / "model.ckpt"
    command.main([*texts, f"--comet-python={python}", f"--comet={model}"])
    found = json.loads((tmp_path / "scores.json").read_text())["COMET"]
    assert found["signature"].startswith("comet:2.2.7|model:model.ckpt|sha256:")
    # By COMET's own command.
    own = Path(python).with_name("comet-score")
    files = [f"-s={tmp_path / 'src.de'}", f"-t={tmp_path / 'hyp.en'}", f"-r={tmp_path / 'ref.en'}"]
    done = subprocess.run(
        [own, *files, f"--model={model}", "--gpus=0", "--only_system", "--quiet"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert found["score"] == pytest.approx(100 * float(done.stdout.split("score: ")[1]), abs=0.011)
