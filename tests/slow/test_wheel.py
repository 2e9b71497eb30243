"""From the wheel alone, as a stranger does: installed in a new environment, used in an empty folder, as README says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from grammar.generate import write_splits
from support.models import ROOT

# Installing takes minutes, training one.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
SOURCES = ("deepnmt", "configs", "hydra_plugins", "setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE")
# In place of README's words: what a core learns in a minute.
SMALL = """--max-tokens 1024 --update-freq 1 --encoder-layers 2 --decoder-layers 2 --encoder-norm pre --decoder-norm pre
--lr 0.004 --warmup-updates 100 --dropout 0.1 --max-update 300""".replace("\n", " ")
CHANGED = {
    "deep-12 data/de-en checkpoints/de-en": f"tiny data/de-en checkpoints/de-en {SMALL}",
    "--last 5": "--last 1",
}


# The newest that fairseq has a wheel for.
NEWEST = "python3.12"


@pytest.fixture(scope="module", params=[sys.executable, NEWEST], ids=["this", "newest"])
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment with the commands of the installed wheel."""
    python = (
        os.environ.get("DEEPNMT_NEWEST_PYTHON") or shutil.which(NEWEST) if request.param == NEWEST else sys.executable
    )
    # A shim of pyenv may name a version that is not there.
    if python is None or subprocess.run([python, "--version"], capture_output=True).returncode:
        pytest.skip(f"no {NEWEST}; DEEPNMT_NEWEST_PYTHON can name one")
    folder = tmp_path_factory.mktemp("wheel")
    source, wheels, venv = folder / "source", folder / "wheels", folder / "venv"
    source.mkdir()
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        copy(ROOT / name, source / name)
    subprocess.run([python, "-m", "venv", venv], check=True)
    pip = [venv / "bin" / "pip", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", wheels, source], check=True)
    (wheel,) = wheels.glob("deepnmt-*.whl")
    subprocess.run([*pip, "install", wheel], check=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("DEEPNMT", "PYTHON"))}
    return {**clean, "PATH": f"{venv / 'bin'}:{os.environ['PATH']}"}


def commands() -> list[str]:
    """Return the commands of README's section on one's own text."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Your own text")[1]
    block = section.split("```")[1].strip().split("\n\n")[0].replace("\\\n", "")
    for old, new in CHANGED.items():
        assert old in block
        block = block.replace(old, new)
    return block.splitlines()


def run(command: str, folder: Path, environment: dict[str, str], status: int = 0) -> str:
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, f"{command}\n{done.stdout[-2000:]}{done.stderr[-3000:]}"
    return done.stdout + done.stderr


def test_from_two_text_files_to_a_translation_and_a_score(installed: dict[str, str], tmp_path: Path) -> None:
    write_splits(tmp_path / "my", {"train": 3000, "test": 50}, seed=1)
    said = [run(command, tmp_path, installed) for command in commands()]
    scores = json.loads((tmp_path / "results" / "de-en" / "scores.json").read_text(encoding="utf-8"))
    assert scores["BLEU"]["score"] > 20
    assert said[-1].splitlines()[0]
    # Scores of two texts, and an old name.
    score = run("deepnmt score results/de-en/hyp.en results/de-en/ref.en", tmp_path, installed)
    assert f"{scores['BLEU']['score']:.2f}" in score
    old = run("deepnmt-export --help", tmp_path, installed)
    assert "usage: deepnmt export " in old
    assert "deepnmt-export: warning: is now 'deepnmt export'; the old name goes with version 1.0" in old
    assert run("deepnmt --version", tmp_path, installed).startswith("deepnmt 0.2.0\n")
    said = [run("deepnmt trian", tmp_path, installed, status=2)]
    assert said == ["deepnmt: error: unknown subcommand 'trian' (see deepnmt --help)\n"]
