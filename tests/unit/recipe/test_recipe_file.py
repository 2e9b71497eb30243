"""Recipes: what they expand to, how one extends another, and how a faulty one is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import build_model
from support import warm
from support.models import dictionary, task
from support.slow import slow_but

from deepnmt import recipe
from deepnmt.errors import UserError
from deepnmt.recipe.checking import check_recipe
from deepnmt.recipe.recipe_file import _read_file

ROOT = Path(__file__).resolve().parents[3]
# These folders have test files of their own.
ELSEWHERE = {"dual", "iwslt14", "progressive", "wmt14"}
# How many files each other folder has, and how many of them are recipes.
NUMBERS = {
    ".": (7, 6),
    "depth": (11, 9),
    "depth_map": (7, 6),
    "ensemble": (2, 2),
    "multi30k": (18, 16),
    "order": (6, 6),
    "synthetic": (18, 16),
    "pretraining": (4, 4),
}
CONFIGS = sorted(path for folder in NUMBERS for path in (ROOT / "configs" / folder).glob("*.yaml"))
# Shared by other recipes, and not to be run: they name no architecture.
BASES = {"multi30k/base.yaml", "multi30k/tiny_base.yaml", "depth/base.yaml", "depth/warmup.yaml", "depth_map/base.yaml"}
# Run by iterate.sh.
BASES |= {"synthetic/iterative.yaml", "synthetic/iterated_distillation.yaml"}
# Run by train_lm.sh; it has no encoder, and tests of its own.
BASES |= {"language_model.yaml"}
# Layers of encoder and decoder, and width, as the recipes' headers say.
SIZES = {"demo": (12, 2, 128), "student": (4, 1, 128), "shallow": (4, 4, 128), "deep": (12, 4, 128)}
SIZES |= {"tiny": (4, 4, 128), "deep-12": (12, 6, 512), "base": (6, 6, 512), "deep-30": (30, 6, 512)}
STUDENTS = {"full_4_4": (4, 4), "ssru_4_1": (4, 1), "ssru_6_1": (6, 1)}
STUDENTS |= {"ssru_12_1": (12, 1), "ssru_12_2": (12, 2), "ssru_24_2": (24, 2)}
SIZES |= {f"{text}{name}": (*layers, 128) for name, layers in STUDENTS.items() for text in ("", "help_")}
SIZES |= {"cmlm": (4, 4, 128), "lstm_12_1": (12, 1, 128), "lightconv_12_1": (12, 1, 128)}
SIZES |= {"ssru_12_1": (12, 1, 128), "ssru_12_2": (12, 2, 128), "ssru_24_2": (24, 2, 128)}
SIZES |= {
    "transparent": (12, 4, 128),
    "mass": (4, 4, 128),
    "masked_encoder": (4, 4, 128),
    "fused": (4, 4, 128),
    "embeddings": (4, 4, 128),
}
DEPTH = ("admin", "deepnorm", "dlcl", "dlcl_t_fixup", "ds_init", "post", "post_xavier", "pre", "t_fixup")
SIZES.update(dict.fromkeys(DEPTH, (48, 48, 64)))
SIZES |= {f"{method}_{depth}": (depth, 4, 128) for method in ("pre", "dlcl") for depth in (4, 12, 24)}
ORDER = ("competence", "sample_share", "random_batches", "penalty", "set_weights", "unigram_sampling")
SIZES.update(dict.fromkeys(ORDER, (4, 4, 128)))
RECIPES = [path for path in CONFIGS if str(path.relative_to(ROOT / "configs")) not in BASES]


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder / f"{next(iter(files))}.yaml"


def arguments(path: Path) -> list[str]:
    return recipe.to_arguments(recipe.read_recipe(path))


@pytest.mark.parametrize("folder", NUMBERS)
def test_number_of_configurations(folder: str) -> None:
    here = (ROOT / "configs" / folder).resolve()
    assert tuple(sum(path.parent == here for path in paths) for paths in (CONFIGS, RECIPES)) == NUMBERS[folder]


def test_every_folder_of_configurations_is_tested() -> None:
    folders = {path.name for path in (ROOT / "configs").iterdir() if path.is_dir()}
    assert folders - ELSEWHERE == NUMBERS.keys() - {"."}


# Those of Multi30k are trained by tests/unit/examples/test_multi30k_recipes.py.
BUILT = [path for path in RECIPES if path.parent.name != "multi30k"]


@pytest.mark.parametrize(
    "path",
    slow_but([path for path in BUILT if path.stem not in {*DEPTH, "deep-30"} - {"dlcl_t_fixup"}], BUILT),
    ids=lambda path: path.stem,
)
def test_recipe_is_fairseqs_and_builds_its_model(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["pytest"])
    read = recipe.read_recipe(path)
    check_recipe(path, read, [])
    parser = options.get_training_parser()
    args = options.parse_args_and_arch(parser, ["DATA", *recipe.to_arguments(read)])
    # A new model would read the checkpoint of a frozen encoder; the numbers of wide ones take their time.
    with torch.device("meta" if SIZES[path.stem][2] > 128 else "cpu"):
        model = build_model(convert_namespace_to_omegaconf(args).model, task(dictionary(50)), from_checkpoint=True)
    got = (len(model.encoder.layers), len(model.decoder.layers), model.encoder.embed_tokens.embedding_dim)
    assert got == SIZES[path.stem]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_key_has_a_comment_and_the_file_a_header(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
    own = [line for line in lines if line and not line.startswith("#")]
    commented = [line for line in own if "  # " in line]
    # Keys that repeat their comment (adam, the number of layers) need none.
    assert len(commented) >= 0.5 * len([line for line in own if not line.startswith("extends:")])
    if path in RECIPES:
        header = [line for line in lines if line.startswith("#")]
        names = [f"deepnmt train {path.relative_to(ROOT / 'configs').with_suffix('')} "]
        studies = {"depth": "examples/depth/run.sh", "depth_map": "examples/depth_map/run.sh ten"}
        command = [f"{studies[path.parent.name]} {path.stem}"] if path.parent.name in studies else names
        assert any(name in line for line in header for name in command)
        assert any("ublished" in line or "easured" in line for line in header)


def test_no_option_stands_in_a_recipe_and_in_its_base_alike() -> None:
    for path in CONFIGS:
        own = _read_file(path).options
        if "extends" in own:
            base = recipe.read_recipe(path.parent / own["extends"].value)
            assert not [key for key in own if key in base and own[key].value == base[key].value]


def test_values_reach_fairseq_as_written(tmp_path: Path) -> None:
    path = write(tmp_path, a="adam-eps: 1e-9\nadam-betas: (0.9, 0.98)\nlr: 0.0005\nfp16: true\nno-save: false\nseed:\n")
    assert arguments(path) == ["--adam-eps=1e-9", "--adam-betas=(0.9, 0.98)", "--lr=0.0005", "--fp16"]


def test_extends_overrides_and_removes(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        a="extends: b.yaml\nlr: 2\nfp16: false\n",
        b="extends: c.yaml\nlr: 1\nfp16: true\n",
        c="dropout: 0.3\nlr: 0\n",
    )
    assert arguments(path) == ["--dropout=0.3", "--lr=2"]


FAULTY = {
    "twice": ("lr: 1\nseed: 1\nlr: 2\n", r"a\.yaml:3: option 'lr' stands here and in line 1"),
    "self": ("extends: a.yaml\n", r"a\.yaml: a recipe must not extend itself, but does: .*a\.yaml -> .*a\.yaml"),
    "lost": ("\nextends: none.yaml\n", r"a\.yaml:2: extends must name a recipe, but .*none\.yaml does not exist"),
    "list": ("lr:\n  - 1\n", r"a\.yaml:1: an option must have one plain value, but has a list"),
    "scalar": ("hello\n", r"a\.yaml:1: a recipe must be a mapping of options"),
    "syntax": ("lr: 1\nseed: [1\n", r"a\.yaml:\d: not valid YAML"),
}


@pytest.mark.parametrize(("text", "message"), FAULTY.values(), ids=FAULTY)
def test_faulty_file(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        recipe.read_recipe(write(tmp_path, a=text))


def test_two_recipes_that_extend_each_other(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a recipe must not extend itself"):
        recipe.read_recipe(write(tmp_path, a="extends: b.yaml\n", b="extends: a.yaml\n"))


def test_missing_and_undecodable_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a\.yaml: cannot be read: No such file or directory"):
        recipe.read_recipe(tmp_path / "a.yaml")
    (tmp_path / "b.yaml").write_bytes(b"lr: \xff\n")
    with pytest.raises(UserError, match=r"b\.yaml: must be UTF-8, but is not \(byte 4\)"):
        recipe.read_recipe(tmp_path / "b.yaml")


def test_unknown_keys_are_all_named_with_line_and_nearest_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["pytest"])
    path = write(
        tmp_path,
        a="arch: dlcl_transformer\nencoder-grups: 2\nextends: b.yaml\n",
        b="optimizer: adam\nwarmup: 4\nmax-tokens: 9\n",
    )
    with pytest.raises(UserError, match=r"a\.yaml:2: 'encoder-grups' is not .*did you mean 'encoder-groups'") as error:
        check_recipe(path, recipe.read_recipe(path), [])
    assert "b.yaml:2: 'warmup' is not an option of fairseq-train for this recipe" in str(error.value)


def test_refused_value_names_the_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["pytest"])
    path = write(tmp_path, a="arch: dlcl_transformer\nencoder-layers: six\noptimizer: adam\nmax-tokens: 9\n")
    with pytest.raises(UserError, match=r"a\.yaml:2: encoder-layers must be a whole number, but is 'six'"):
        check_recipe(path, recipe.read_recipe(path), [])


def test_command_line(tmp_path: Path) -> None:
    command = [str(warm.program("python3")), "-m", "deepnmt.recipe"]
    path = write(tmp_path, a="arch: dlcl_transformer\nadam-betas: (0.9, 0.98)\noptimizer: adam\nmax-tokens: 9\n")
    done = subprocess.run([*command, str(path), "--seed", "3"], capture_output=True, text=True, check=True)
    assert done.stdout.split("\0") == [
        "--arch=dlcl_transformer",
        "--adam-betas=(0.9, 0.98)",
        "--optimizer=adam",
        "--max-tokens=9",
        "--seed",
        "3",
        "",
    ]
    done = subprocess.run([*command, str(tmp_path / "none.yaml")], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"recipe.py: error: {tmp_path}/none.yaml: cannot be read: No such file or directory\n"
