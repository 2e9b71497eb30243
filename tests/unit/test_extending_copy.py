"""All worked examples of docs/extending.md at once, in a copy of the package: a training, a search, a model folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from support.translation_models import write_checkpoint, write_data
from test_extending import CHANGED, NEW, ROOT

from deepnmt.text.dictionary import read_types
from deepnmt.text.index_writer import binarise

PROGRAM = """
import sys
from pathlib import Path
import deepnmt
from deepnmt import Translator
from deepnmt.export.exporter import Export, export
from deepnmt.recipe import read_recipe, to_arguments
from fairseq_cli import generate, train

data, folder, checkpoint = sys.argv[1:]
recipe = Path(folder) / "recipe.yaml"
recipe.write_text("arch: dlcl_transformer\\nlayers: 2\\ntask: deep_translation\\n")
deepnmt.register()
sizes = [f"--{stack}-{name}" for stack in ("encoder", "decoder") for name in (
    "embed-dim=16", "ffn-embed-dim=16", "attention-heads=2", "norm=pre-b2t", "groups=none")]
sys.argv = ["fairseq-train", data, *to_arguments(read_recipe(recipe), 1), *sizes, "--initializer=orthogonal",
    "--lr-scheduler=inverse_sqrt_hold", "--hold-updates=3", "--lr=0.01", "--optimizer=adam", "--max-tokens=200",
    "--criterion=label_smoothed_cross_entropy_confidence", "--confidence-beta=0.2", "--max-update=4", "--cpu",
    f"--save-dir={folder}/save", "--share-all-embeddings", "--disable-validation"]
train.cli_main()
sys.argv = ["fairseq-generate", data, f"--path={folder}/save/checkpoint_last.pt", "--cpu", "--gen-subset=train",
    "--task=deep_translation", "--no-echo", f"--results-path={folder}/found"]
generate.cli_main()
export(Export([Path(checkpoint)], Path(data), engine="echo", check=0), Path(folder) / "echo")
print(Translator(Path(folder) / "echo").translate("Der Hund schläft."))
"""


def apply_examples(package: Path) -> None:
    """Write the new files, and put the new lines where the page has them between old ones."""
    for path, text in NEW.items():
        target = package / path
        target.parent.mkdir(exist_ok=True)
        target.write_text(text, encoding="utf-8")
    for path, change in CHANGED.items():
        text = (package / path).read_text("utf-8")
        for hunk in re.split(r"^@@\n", change, flags=re.MULTILINE):
            lines = hunk.splitlines(keepends=True)
            old = "".join(line[1:] for line in lines if line[0] in " -")
            new = "".join(line[1:] for line in lines if line[0] in " +")
            assert text.count(old) == 1 or not old, f"{path}: {old}"
            text = text.replace(old, new) if old else f"{text}\n\n{new}"
        (package / path).write_text(text, encoding="utf-8")


def test_all_examples_work_together(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "deepnmt", tmp_path / "deepnmt", ignore=shutil.ignore_patterns("__pycache__"))
    apply_examples(tmp_path)
    data = write_data(tmp_path / "data")
    checkpoint = write_checkpoint(tmp_path / "model.pt", data)
    for language in ("de", "en"):
        types = read_types(data / f"dict.{language}.txt")
        binarise(data / "text" / f"valid.bpe.{language}", str(data / f"train.de-en.{language}"), types)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, data, tmp_path, checkpoint], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = (tmp_path / "found" / "generate-train.txt").read_text("utf-8")
    translations = [line.split("\t")[2].split() for line in found.splitlines() if line.startswith("H-")]
    assert translations
    assert not [words for words in translations if any(one == other for one, other in zip(words, words[1:]))]
    assert done.stdout.splitlines()[-1] == "Der Hund schläft."
