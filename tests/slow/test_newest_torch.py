"""The newest torch that pip finds, with all else as installed here: a training, translations, and quiet messages."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from support.flow import GERMAN, SCRIPTS, corpus, preprocess

# Installing takes minutes: torch for GPUs has 3 GB.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
RECIPE = """arch: dlcl_transformer_tiny
encoder-layers: 2
decoder-layers: 1
optimizer: adam
lr: 0.003
criterion: label_smoothed_cross_entropy_fused
label-smoothing: 0.1
max-tokens: 400
max-epoch: 6
"""
# Each imports fairseq before it reads its command line.
COMMANDS = ("datastore", "grow", "import", "inspect", "shrink", "train")


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment in which Python has the newest torch."""
    folder = tmp_path_factory.mktemp("newest") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin" / "pip", "install", "--quiet", "torch"], check=True)
    # Behind what was just installed.
    here = Path(sysconfig.get_path("purelib"))
    next(folder.glob("lib/python*/site-packages")).joinpath("here.pth").write_text(f"{here}\n", encoding="utf-8")
    for command in (here.parents[2] / "bin").glob("fairseq-*"):
        _, _, body = command.read_text(encoding="utf-8").partition("\n")
        wrapper = folder / "bin" / command.name
        wrapper.write_text(f"#!{folder}/bin/python\n{body}", encoding="utf-8")
        wrapper.chmod(0o755)
    return {**os.environ, "OMP_NUM_THREADS": "1", "DEEPNMT_PYTHON_BIN": str(folder / "bin")}


def run(environment: dict[str, str], *command: object, text: str = "", status: int = 0) -> tuple[str, str]:
    done = subprocess.run(
        [str(word) for word in command], input=text, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == status, done.stderr[-3000:]
    assert "Warning" not in done.stderr + done.stdout
    return done.stdout, done.stderr


def test_trains_and_translates_as_with_the_pinned_torch(tmp_path: Path, newest: dict[str, str]) -> None:
    python = Path(newest["DEEPNMT_PYTHON_BIN"]) / "python"
    versions = [
        run(newest, each, "-c", "import torch; print(torch.__version__)")[0] for each in (python, sys.executable)
    ]
    new, old = [tuple(map(int, version.split("+")[0].split("."))) for version in versions]
    assert new >= old
    data, save, average = tmp_path / "data", tmp_path / "save", tmp_path / "average.pt"
    assert preprocess(corpus(tmp_path / "text"), data).returncode == 0
    (tmp_path / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
    log = "".join(run(newest, SCRIPTS / "train.sh", tmp_path / "recipe.yaml", data, save))
    assert "done training" in log
    run(newest, SCRIPTS / "average.sh", save, average, "--last", "3")
    pinned = {key: value for key, value in newest.items() if key != "DEEPNMT_PYTHON_BIN"}
    translations = []
    for name, environment in (("new", newest), ("old", pinned)):
        run(environment, SCRIPTS / "generate.sh", average, data, tmp_path / name)
        translations.append((tmp_path / name / "hyp.en").read_text(encoding="utf-8"))
    assert translations[0] == translations[1]
    raw = "".join(f"{line}\n" for line in GERMAN[:2])
    command = ["-m", "deepnmt", "translate", average, "--data", data]
    assert run(newest, python, *command, text=raw)[0] == translations[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_messages_stand_alone(command: str, newest: dict[str, str]) -> None:
    python = Path(newest["DEEPNMT_PYTHON_BIN"]) / "python"
    output, error = run(newest, python, "-m", "deepnmt", command, status=2)
    assert (output, error.count("\n")) == ("", 1)
