"""48 encoder layers on real text, and 500: slow, run with `-m slow`.

The loss curves are kept in tests/curves, a line "update bits" each, so that a change to the package that changes a
training shows. They were made by examples/depth/run.sh, which this test runs again.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from models import ROOT

CURVES = sorted((ROOT / "tests" / "curves").glob("*.txt"))
RECIPES = sorted(path.stem for path in (ROOT / "configs" / "depth").glob("*.yaml") if "\narch:" in path.read_text())
# Bits a token at update 300: the settings that get the source through 48 layers within 300 updates, and the others,
# which are left with what the decoder learns of the language.
THROUGH = ("ds_init", "deepnorm", "admin", "pre", "dlcl", "t_fixup", "dlcl_t_fixup")
EXAMPLE_SCRIPT = ROOT / "examples" / "depth" / "run.sh"


def curve(path: Path) -> dict[int, float]:
    return {int(update): float(bits) for update, bits in (line.split() for line in path.read_text().splitlines())}


def test_every_recipe_has_its_curve() -> None:
    assert [path.stem for path in CURVES] == RECIPES


@pytest.mark.parametrize("path", CURVES, ids=lambda path: path.stem)
def test_kept_curves_fall_clearly(path: Path) -> None:
    bits = curve(path)
    assert list(bits) == list(range(10, 301, 10))
    start = bits[10]
    assert start > 10
    assert bits[300] < start - 3


def test_the_source_gets_through_where_the_page_says_so() -> None:
    last = {path.stem: curve(path)[300] for path in CURVES}
    for name in THROUGH:
        assert last[name] < last["post_xavier"] - 0.2


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """OUT of examples/depth/run.sh, kept if the environment names one."""
    if "MULTI30K_DIR" not in os.environ:
        pytest.skip("needs Multi30k: set MULTI30K_DIR to its folder (see examples/multi30k/run.sh --help)")
    return Path(os.environ.get("OUT") or tmp_path_factory.mktemp("depth"))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("recipe", RECIPES)
def test_training_gives_the_kept_curve(recipe: str, out: Path) -> None:
    environment = {**os.environ, "OUT": str(out), "OMP_NUM_THREADS": "1"}
    subprocess.run([str(EXAMPLE_SCRIPT), recipe], env=environment, check=True)
    got, kept = curve(out / "curves" / f"{recipe}.txt"), curve(ROOT / "tests" / "curves" / f"{recipe}.txt")
    assert list(got) == list(kept)
    # Other processors round differently, and that grows; a change of the method shows by more.
    for update, bits in kept.items():
        assert abs(got[update] - bits) < (0.02 if update <= 50 else 0.4), update


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("recipe", ["pre", "deepnorm"])
def test_500_layers_take_an_update(recipe: str, out: Path, tmp_path: Path) -> None:
    """The peak of the process's memory is printed; with `-s` it is seen."""
    environment = {**os.environ, "OUT": str(out), "OMP_NUM_THREADS": "1"}
    subprocess.run([str(EXAMPLE_SCRIPT), "pre"], env=environment, check=True)  # makes the data, or finds it
    command = [str(ROOT / "scripts" / "train.sh"), str(ROOT / "configs" / "depth" / f"{recipe}.yaml")]
    command += [str(out / "data"), str(tmp_path), "--encoder-layers", "500", "--max-update", "1", "--no-save"]
    command += ["--log-interval", "1", "--disable-validation", "--checkpoint-activations"]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    print(f"{recipe}, 500 layers, one update: peak memory {peak:.2f} GiB", file=sys.stderr)
    loss = re.search(r"train_inner .* nll_loss=([\d.]+),", done.stdout + (tmp_path / "train.log").read_text())
    assert loss is not None
    assert 10 < float(loss[1]) < 20
